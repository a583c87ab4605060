// Which of the files named on the command line the real server takes for a zoo.cfg: a line each, "taken" or "refused".

import org.apache.zookeeper.server.quorum.QuorumPeerConfig;

public final class ZooCfgs {
    public static void main(String[] files) {
        StringBuilder said = new StringBuilder();
        for (String file : files) {
            try {
                new QuorumPeerConfig().parse(file);
                said.append("taken\n");
            } catch (Exception refused) {
                said.append("refused\n");
            }
        }
        System.out.print(said);
    }
}
