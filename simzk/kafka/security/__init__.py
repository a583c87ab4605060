"""Security at the ports of simulated brokers, without I/O: SASL logins, their mechanisms, and the settings of both."""
