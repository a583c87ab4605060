// ZooKeeper's own Java client; see dialogue.py for what it does and says.

import java.nio.charset.StandardCharsets;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;

public class JavaClient {
    static ZooKeeper zookeeper;
    static final LinkedBlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();

    static synchronized void say(String what) {
        System.out.println(what);
        System.out.flush();
    }

    static String read(String path) throws Exception {
        return new String(zookeeper.getData(path, true, null), StandardCharsets.UTF_8);
    }

    static void begin(String path) throws Exception {
        zookeeper.create(path, "one".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        say("read " + read(path));
        zookeeper.setData(path, "two".getBytes(), 0);
        say("created " + zookeeper.create(path + "/ephemeral", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL));
        say("created " + zookeeper.create(path + "/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL));
        try {
            zookeeper.multi(List.of(Op.delete(path + "/ephemeral", -1), Op.check(path, 7)));
        } catch (KeeperException.BadVersionException refused) {
            say("refused " + refused.getResults().size());
        }
        read(path);
        say("waiting");
    }

    public static void main(String[] arguments) throws Exception {
        String path = arguments[1];
        zookeeper = new ZooKeeper(arguments[0], 30000, events::add);
        boolean begun = false;
        while (true) {
            WatchedEvent event = events.take();
            switch (event.getType()) {
                case None:
                    switch (event.getState()) {
                        case SyncConnected:
                            say("connected 0x" + Long.toHexString(zookeeper.getSessionId()));
                            if (!begun) {
                                begun = true;
                                begin(path);
                            }
                            break;
                        case Disconnected:
                            say("disconnected");
                            break;
                        case Expired:
                            say("expired");
                            System.exit(0);
                            break;
                        default:
                            say("state " + event.getState());
                    }
                    break;
                case NodeDataChanged:
                    String value = read(path);
                    say("changed " + event.getPath());
                    if (value.equals("three")) {
                        boolean kept = zookeeper.exists(path + "/ephemeral", false) != null;
                        say("read three, the ephemeral is " + (kept ? "there" : "gone"));
                    }
                    break;
                default:
                    say("event " + event);
            }
        }
    }
}
