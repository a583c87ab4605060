// go-zookeeper/zk; see dialogue.py for what it does and says.

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func must(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

var open = zk.WorldACL(zk.PermAll)

func read(connection *zk.Conn, path string) (string, <-chan zk.Event) {
	data, _, changed, err := connection.GetW(path)
	must(err)
	return string(data), changed
}

func begin(connection *zk.Conn, path string) <-chan zk.Event {
	_, err := connection.Create(path, []byte("one"), 0, open)
	must(err)
	value, changed := read(connection, path)
	fmt.Println("read", value)
	_, err = connection.Set(path, []byte("two"), 0)
	must(err)
	<-changed
	fmt.Println("changed", path)
	created, err := connection.Create(path+"/ephemeral", nil, zk.FlagEphemeral, open)
	must(err)
	fmt.Println("created", created)
	created, err = connection.Create(path+"/s-", nil, zk.FlagSequence, open)
	must(err)
	fmt.Println("created", created)
	results, err := connection.Multi(
		&zk.DeleteRequest{Path: path + "/ephemeral", Version: -1}, &zk.CheckVersionRequest{Path: path, Version: 7})
	if err == zk.ErrBadVersion {
		fmt.Println("refused", len(results))
	}
	_, changed = read(connection, path)
	fmt.Println("waiting")
	return changed
}

func main() {
	path := os.Args[2]
	connection, events, err := zk.Connect(strings.Split(os.Args[1], ","), 30*time.Second, zk.WithLogger(quiet{}))
	must(err)
	var changed <-chan zk.Event
	for {
		select {
		case event := <-events:
			switch event.State {
			case zk.StateHasSession:
				if event.Type != zk.EventSession {
					continue
				}
				fmt.Printf("connected 0x%x\n", uint64(connection.SessionID()))
				if changed == nil {
					changed = begin(connection, path)
				}
			case zk.StateDisconnected:
				if event.Type == zk.EventSession && changed != nil {
					fmt.Println("disconnected")
				}
			case zk.StateExpired:
				fmt.Println("expired")
				os.Exit(0)
			}
		case event := <-changed:
			if event.Type != zk.EventNodeDataChanged {
				continue
			}
			var value string
			value, changed = read(connection, path)
			fmt.Println("changed", event.Path)
			kept, _, err := connection.Exists(path + "/ephemeral")
			must(err)
			fmt.Printf("read %s, the ephemeral is %s\n", value, map[bool]string{true: "there", false: "gone"}[kept])
		}
	}
}
