// What a real server boots to from each data directory named on the command line: a JSON object a line, with why it
// does not, or with all znodes, sessions and the last zxid. It boots as ZooKeeperServerMain does, without its ports.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

public final class Boots {
    public static void main(String[] directories) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        for (String directory : directories) {
            Map<String, Object> found = new LinkedHashMap<>();
            try {
                boot(new File(directory), found);
            } catch (Throwable refused) {
                found.clear();
                found.put("refused", refused.toString());
            }
            System.out.println(mapper.writeValueAsString(found));
        }
    }

    private static void boot(File directory, Map<String, Object> found) throws Exception {
        FileTxnSnapLog log = new FileTxnSnapLog(directory, directory);
        ZooKeeperServer server = new ZooKeeperServer(log, 2000, -1, -1, -1, null, "");
        server.startdata();
        DataTree tree = server.getZKDatabase().getDataTree();
        Map<String, Object> nodes = new TreeMap<>();
        for (Map.Entry<String, DataNode> entry : entriesOf(tree)) {
            nodes.put(entry.getKey(), described(tree, entry.getValue()));
        }
        found.put("zxid", server.getZKDatabase().getDataTreeLastProcessedZxid());
        found.put("sessions", new TreeMap<>(server.getZKDatabase().getSessionWithTimeOuts()));
        Map<String, Object> ephemerals = new TreeMap<>();
        tree.getEphemerals().forEach((session, paths) -> ephemerals.put(session.toString(), new TreeSet<>(paths)));
        found.put("ephemerals", ephemerals);
        found.put("nodes", nodes);
        log.close();
    }

    @SuppressWarnings("unchecked")
    private static Iterable<Map.Entry<String, DataNode>> entriesOf(DataTree tree) throws Exception {
        Field field = DataTree.class.getDeclaredField("nodes");
        field.setAccessible(true);
        Object nodes = field.get(tree);
        Method entries = nodes.getClass().getMethod("entrySet");
        entries.setAccessible(true);
        return (Iterable<Map.Entry<String, DataNode>>) entries.invoke(nodes);
    }

    private static Map<String, Object> described(DataTree tree, DataNode node) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("data", node.getData() == null ? null : HexFormat.of().formatHex(node.getData()));
        Stat stat = new Stat();
        node.copyStat(stat);
        one.put("stat", List.of(stat.getCzxid(), stat.getMzxid(), stat.getCtime(), stat.getMtime(), stat.getVersion(),
            stat.getCversion(), stat.getAversion(), stat.getEphemeralOwner(), stat.getDataLength(),
            stat.getNumChildren(), stat.getPzxid()));
        one.put("children", new TreeSet<>(node.getChildren()));
        List<Object> acl = new ArrayList<>();
        try {
            for (ACL entry : tree.getACL(node)) {
                acl.add(java.util.Arrays.asList(entry.getPerms(), entry.getId().getScheme(), entry.getId().getId()));
            }
            one.put("acl", acl);
        } catch (RuntimeException missing) {
            one.put("acl", null);
        }
        return one;
    }
}
