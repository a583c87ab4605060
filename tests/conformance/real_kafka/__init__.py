"""Real Kafka brokers on `simzk serve`: they live through the recorded story, and leave the recorded tree.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka pytest tests/conformance/real_kafka

fetches each release of `releases.RELEASES` by its Maven coordinates into that folder (once; with mvn), and starts
three brokers of it. It needs a JDK 17 or newer and takes about a minute a release. Without the variable nothing is
fetched and nothing is started.
"""
