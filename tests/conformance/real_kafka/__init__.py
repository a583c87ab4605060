"""Real Kafka brokers on `simzk serve`: they live through the recorded story, and leave the recorded tree.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka pytest tests/conformance/real_kafka

fetches each release of `releases.ALWAYS` by its Maven coordinates into that folder, once, and starts three brokers of
it; `SIMZK_KAFKA_RELEASES=all` takes all of `releases.RELEASES`. It needs a JDK 17 or newer and takes about a minute a
release. Without the first variable nothing is fetched and nothing is started, but in CI, where both is done.
"""
