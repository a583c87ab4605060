// A cluster of franz-go's kfake with three brokers, for benchmarks/kafka_server.py.
//
// It prints the brokers' addresses, with topics and numbers of partitions as arguments (NAME:PARTITIONS), and serves
// until its standard input ends.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	options := []kfake.Opt{kfake.NumBrokers(3)}
	for _, argument := range os.Args[1:] {
		name, count, _ := strings.Cut(argument, ":")
		partitions, err := strconv.Atoi(count)
		if err != nil {
			panic(err)
		}
		options = append(options, kfake.SeedTopics(int32(partitions), name))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
	cluster.Close()
}
