package org.apache.zookeeper.test;

import java.util.Collections;
import java.util.Set;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;

/** Stands before the class of this name in ZooKeeper's tests: a server in another process has no beans here to look for. */
public class JMXEnv {
  public static void setUp() {}

  public static void tearDown() {}

  public static MBeanServerConnection conn() {
    throw new UnsupportedOperationException("no beans here");
  }

  public static Set<ObjectName> ensureAll(String... names) {
    return Collections.emptySet();
  }

  public static Set<ObjectName> ensureOnly(String... names) {
    return Collections.emptySet();
  }

  public static Set<ObjectName> ensureParent(String... names) {
    return Collections.emptySet();
  }

  public static void ensureNone(String... names) {}

  public static void dump() {}
}
