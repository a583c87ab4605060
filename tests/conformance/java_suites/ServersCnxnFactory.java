package org.apache.zookeeper.server;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Map;

/**
 * Lets ZooKeeper's own tests, which start a server in their own process, talk to one of servers.py instead: the property
 * zookeeper.serverCnxnFactory names this class. The server that a test made is never started.
 */
public class ServersCnxnFactory extends ServerCnxnFactory {
  // Of what a server reads from the process's properties, what a test sets and a zoo.cfg can say.
  private static final String[] SAID = {
    "DigestAuthenticationProvider.superDigest", "DigestAuthenticationProvider.digestAlg",
    "DigestAuthenticationProvider.enabled", "skipACL", "extendedTypesEnabled", "4lw.commands.whitelist", "enforceQuota",
    "sessionRequireClientSASLAuth", "enforce.auth.enabled", "enforce.auth.schemes", "authProvider.1", "superUser",
    "allowSaslFailedClients", "nio.sessionlessCnxnTimeout",
  };
  private InetSocketAddress address;
  private int most;
  private Socket socket;

  @Override
  public void configure(InetSocketAddress address, int most, int backlog, boolean secure) throws IOException {
    if (secure) throw new IOException("no TLS here");
    this.address = address;
    this.most = most;
  }

  @Override
  public void startup(ZooKeeperServer server, boolean start) throws IOException, InterruptedException {
    setZooKeeperServer(server);
    if (!start) return;
    File folder = new File(server.getTxnLogFactory().getSnapDir().getParentFile(), "simzk");
    StringBuilder text = new StringBuilder("dataDir=" + folder + "\nclientPort=" + address.getPort() + "\n");
    text.append("clientPortAddress=127.0.0.1\nadmin.enableServer=false\nforceSync=no\nreconfigEnabled=true\n");
    text.append("tickTime=" + server.getTickTime() + "\nmaxClientCnxns=" + most + "\n");
    text.append("minSessionTimeout=" + server.getMinSessionTimeout() + "\n");
    text.append("maxSessionTimeout=" + server.getMaxSessionTimeout() + "\n");
    for (String name : SAID) {
      String value = System.getProperty("zookeeper." + name);
      if (value != null) text.append(name + "=" + value + "\n");
    }
    for (String name : System.getProperties().stringPropertyNames())
      if (name.startsWith("zookeeper.superUser.")) text.append(name.substring(10) + "=" + System.getProperty(name) + "\n");
    for (String name : new String[] {"jute.maxbuffer", "znode.container.checkIntervalMs"})
      if (System.getProperty(name) != null) text.append(name + "=" + System.getProperty(name) + "\n");
    String jaas = System.getProperty("java.security.auth.login.config", "");
    Path config = Files.createTempFile("zoo", ".cfg");
    Files.write(config, text.toString().getBytes(StandardCharsets.UTF_8));
    Socket asked = new Socket(InetAddress.getLoopbackAddress(), Integer.getInteger("simzk.servers"));
    asked.getOutputStream().write((config + "\t" + jaas + "\n").getBytes(StandardCharsets.UTF_8));
    String answer = new BufferedReader(new InputStreamReader(asked.getInputStream())).readLine();
    Files.delete(config);
    if (!"ok".equals(answer)) {
      asked.close();
      throw new IOException(answer);
    }
    socket = asked;
  }

  @Override
  public void shutdown() {
    try {
      if (socket != null) {
        socket.shutdownOutput();
        while (socket.getInputStream().read() >= 0) {} // until the server is gone
        socket.close();
      }
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
    socket = null;
  }

  @Override
  public int getLocalPort() {
    return address.getPort();
  }

  @Override
  public InetSocketAddress getLocalAddress() {
    return address;
  }

  @Override
  public int getMaxClientCnxnsPerHost() {
    return most;
  }

  @Override
  public void setMaxClientCnxnsPerHost(int most) {
    this.most = most;
  }

  @Override
  public Iterable<ServerCnxn> getConnections() {
    return Collections.emptyList();
  }

  @Override
  public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
    return Collections.emptyList();
  }

  @Override
  public int getSocketListenBacklog() {
    return -1;
  }

  @Override
  public void reconfigure(InetSocketAddress address) {}

  @Override
  public void join() {}

  @Override
  public void start() {}

  @Override
  public void closeAll(ServerCnxn.DisconnectReason reason) {}

  @Override
  public void resetAllConnectionStats() {}
}
