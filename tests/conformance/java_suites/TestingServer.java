package org.apache.curator.test;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * Stands before the class of this name in curator-test, with the same methods: its server is one of servers.py, which
 * listens on the port that the property simzk.servers says.
 */
public class TestingServer implements Closeable {
  private static final int TICK_MS = 3000; // where a test does not say: ZooKeeper's own, as there
  private final InstanceSpec spec;
  private Socket socket;

  public TestingServer() throws Exception {
    this(true);
  }

  public TestingServer(boolean start) throws Exception {
    this(InstanceSpec.newInstanceSpec(), start);
  }

  public TestingServer(int port) throws Exception {
    this(port, true);
  }

  public TestingServer(int port, boolean start) throws Exception {
    this(port, null, start);
  }

  public TestingServer(int port, File directory) throws Exception {
    this(port, directory, true);
  }

  public TestingServer(int port, File directory, boolean start) throws Exception {
    this(new InstanceSpec(directory, port > 0 ? port : -1, -1, -1, true, -1, -1, -1), start);
  }

  public TestingServer(InstanceSpec spec, boolean start) throws Exception {
    this.spec = spec;
    if (start) start();
  }

  public int getPort() {
    return spec.getPort();
  }

  public File getTempDirectory() {
    return spec.getDataDirectory();
  }

  public String getConnectString() {
    return spec.getConnectString();
  }

  public synchronized void start() throws Exception {
    if (socket != null) return;
    Files.createDirectories(spec.getDataDirectory().toPath());
    int connections = spec.getMaxClientCnxns();
    StringBuilder text = new StringBuilder();
    text.append("dataDir=" + spec.getDataDirectory() + "\n");
    text.append("clientPort=" + spec.getPort() + "\nclientPortAddress=127.0.0.1\n");
    text.append("tickTime=" + (spec.getTickTime() >= 0 ? spec.getTickTime() : TICK_MS) + "\n");
    if (connections >= 0) text.append("maxClientCnxns=" + connections + "\n");
    text.append("admin.enableServer=false\nextendedTypesEnabled=true\nforceSync=no\n");
    // What a server in the tests' own process would read there.
    String interval = System.getProperty("znode.container.checkIntervalMs");
    if (interval != null) text.append("znode.container.checkIntervalMs=" + interval + "\n");
    String digest = System.getProperty("zookeeper.DigestAuthenticationProvider.superDigest");
    if (digest != null) text.append("DigestAuthenticationProvider.superDigest=" + digest + "\n");
    for (Map.Entry<String, Object> entry : spec.getCustomProperties().entrySet())
      text.append(entry.getKey() + "=" + entry.getValue() + "\n");
    Path config = Files.createTempFile("zoo", ".cfg");
    Files.writeString(config, text);
    Socket asked = new Socket(InetAddress.getLoopbackAddress(), Integer.getInteger("simzk.servers"));
    asked.getOutputStream().write((config + "\n").getBytes(StandardCharsets.UTF_8));
    String answer = new BufferedReader(new InputStreamReader(asked.getInputStream())).readLine();
    Files.delete(config);
    if (!"ok".equals(answer)) {
      asked.close();
      throw new IOException(answer);
    }
    socket = asked;
  }

  public synchronized void stop() throws IOException {
    if (socket == null) return;
    socket.shutdownOutput();
    while (socket.getInputStream().read() >= 0) {} // until the server is gone
    socket.close();
    socket = null;
  }

  public void restart() throws Exception {
    stop();
    start();
  }

  @Override
  public void close() throws IOException {
    stop();
    if (spec.deleteDataDirectoryOnClose()) delete(spec.getDataDirectory());
  }

  private static void delete(File file) {
    File[] inside = file.listFiles();
    if (inside != null) for (File one : inside) delete(one);
    file.delete();
  }
}
