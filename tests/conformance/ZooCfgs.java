// What the real server makes of the files named on the command line: a line each, "refused", or "taken", "standalone" or
// "ensemble", and the address of its client port or "none".

import java.net.InetSocketAddress;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;

public final class ZooCfgs {
    public static void main(String[] files) {
        StringBuilder said = new StringBuilder();
        for (String file : files) {
            QuorumPeerConfig.setStandaloneEnabled(true);  // of the file before, kept in a static field
            try {
                QuorumPeerConfig config = new QuorumPeerConfig();
                config.parse(file);
                said.append("taken ").append(config.isDistributed() ? "ensemble " : "standalone ");
                InetSocketAddress client = config.getClientPortAddress();
                if (client == null) {
                    said.append("none\n");
                } else {
                    said.append(client.getAddress().getHostAddress()).append(":").append(client.getPort()).append("\n");
                }
            } catch (Exception refused) {
                said.append("refused\n");
            }
        }
        System.out.print(said);
    }
}
