// Curator; see dialogue.py for what it does and says.

import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.EventType;

public class CuratorClient {
    static CuratorFramework curator;
    static final LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();

    static synchronized void say(String what) {
        System.out.println(what);
        System.out.flush();
    }

    static void connected() throws Exception {
        say("connected 0x" + Long.toHexString(curator.getZookeeperClient().getZooKeeper().getSessionId()));
    }

    static final CuratorWatcher watcher = event -> {
        if (event.getType() == EventType.NodeDataChanged) {
            told.add("changed");
        }
    };

    static String read(String path) throws Exception {
        return new String(curator.getData().usingWatcher(watcher).forPath(path));
    }

    static void begin(String path) throws Exception {
        curator.create().creatingParentContainersIfNeeded().forPath(path, "one".getBytes());
        say("read " + read(path));
        curator.setData().withVersion(0).forPath(path, "two".getBytes());
        say("created " + curator.create().withMode(CreateMode.EPHEMERAL).forPath(path + "/ephemeral"));
        say("created " + curator.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(path + "/s-"));
        try {
            curator.transaction().forOperations(
                curator.transactionOp().delete().forPath(path + "/ephemeral"),
                curator.transactionOp().check().withVersion(7).forPath(path));
        } catch (KeeperException.BadVersionException refused) {
            say("refused " + refused.getResults().size());
        }
        InterProcessMutex mutex = new InterProcessMutex(curator, path + "/mutex");
        mutex.acquire();
        mutex.release();
        read(path);
        say("waiting");
    }

    public static void main(String[] arguments) throws Exception {
        String path = arguments[1];
        curator = CuratorFrameworkFactory.builder().connectString(arguments[0]).sessionTimeoutMs(30000)
            .connectionTimeoutMs(15000).retryPolicy(new RetryForever(20)).build();
        curator.getConnectionStateListenable().addListener((client, state) -> told.add(state.name()));
        curator.start();
        while (true) {
            switch (told.take()) {
                case "CONNECTED":
                    connected();
                    begin(path);
                    break;
                case "SUSPENDED":
                    say("disconnected");
                    break;
                case "RECONNECTED":
                    connected();
                    break;
                case "LOST":
                    say("expired");
                    System.exit(0);
                    break;
                case "changed":
                    String value = read(path);
                    say("changed " + path);
                    if (value.equals("three")) {
                        boolean kept = curator.checkExists().forPath(path + "/ephemeral") != null;
                        say("read three, the ephemeral is " + (kept ? "there" : "gone"));
                    }
                    break;
                default:
            }
        }
    }
}
