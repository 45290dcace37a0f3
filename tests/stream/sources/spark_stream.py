"""A process with Spark and its Kafka connector: it writes what a topic has, and ends.

Messages that cannot be understood go to the table of dead letters.

Arguments: jars, servers, topic, checkpoint, warehouse.
"""

import sys

from pyspark.sql import SparkSession

import deletekit as dk


def main(jars: str, servers: str, topic: str, checkpoint: str, warehouse: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars", jars)
    spark = builder.config("spark.driver.memory", "600m").config("spark.driver.host", "127.0.0.1").getOrCreate()
    frame = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "60")
    table, letters = (dk.load_table(dk.local_catalog(warehouse), f"test.{name}") for name in ("t", "letters"))
    with dk.stream.sink(table, "s", on="id", dead_letters=letters) as sink:
        write = dk.stream.foreach_messages(sink, dk.stream.decoder("debezium-json"))
        stream = frame.load().writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        stream.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
