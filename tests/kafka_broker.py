"""A Kafka broker: Kafka's own artifacts from Maven as one KRaft node, in a process and a folder of its own."""

import logging
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.rest_server import free_port

KAFKA = "4.1.0"
KAFKA_JARS = (("org.apache.kafka", "kafka_2.13", KAFKA, ""), ("org.slf4j", "slf4j-simple", "2.0.17", ""))
SPARK_KAFKA_JARS = (("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.1.1", ""),)
SPARK_KAFKA_NAMES = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""Spark's connector: which of the jars that it names are not Spark's own."""
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/logs
num.network.threads=1
num.io.threads=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.enable=false
"""
PATIENCE = 120


@dataclass
class KafkaBroker:
    """A broker on a free port of the loopback."""

    java: str
    jars: str
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    made: int = 0

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Make the node's storage, start it, and wait until it answers."""
        settings = self.folder / "server.properties"
        settings.write_text(SETTINGS.format(port=self.port, control=free_port(), folder=self.folder), encoding="utf-8")
        java = [self.java, "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self.jars]
        storage = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
        subprocess.run(storage, check=True, capture_output=True)
        log = self.folder / "server.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=output, stderr=output)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"Kafka does not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        """End it by its pid; what it holds is of no use to anyone."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(PATIENCE)
            self.process = None

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        """Create a topic, and wait until it can be written to."""
        from confluent_kafka.admin import NewTopic  # noqa: PLC0415

        self.made += 1
        name = name or f"t{self.made}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(PATIENCE)
        self._wait(name, partitions)
        return name

    def grow(self, name: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions  # noqa: PLC0415

        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(PATIENCE)
        self._wait(name, partitions)

    def drop(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while name in self.admin.list_topics(timeout=PATIENCE).topics:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def forget(self, name: str, offset: int, partition: int = 0) -> None:
        """Delete the messages before an offset, as retention does."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        asked = self.admin.delete_records([TopicPartition(name, partition, offset)])
        for answer in asked.values():
            answer.result(PATIENCE)

    @cached_property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        return AdminClient({"bootstrap.servers": self.servers}, logger=logging.getLogger("broker"))

    @contextmanager
    def producer(self, **settings: Any) -> Iterator[Any]:
        """Give a producer; at the end everything is sent."""
        from confluent_kafka import Producer  # noqa: PLC0415

        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 1, **settings})
        yield producer
        assert producer.flush(PATIENCE) == 0

    def _wait(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            topic = self.admin.list_topics(timeout=PATIENCE).topics.get(name)
            found = [] if topic is None else topic.partitions.values()
            if len(found) == partitions and all(p.leader >= 0 for p in found):
                return
            assert time.monotonic() < deadline, f"topic {name} is not there"
            time.sleep(0.05)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            self.admin.list_topics(timeout=1)
        except KafkaException:
            return False
        return True
