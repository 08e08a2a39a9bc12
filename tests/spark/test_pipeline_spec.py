"""Pipeline files: all mistakes together, each in one line that names file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import BadPipeline
from orbitmq.spark.pipelines import Mistakes, load
from orbitmq.spark.pipelines.secrets import Secrets, is_secret
from orbitmq.spark.pipelines.spec import Interval
from orbitmq.spark.pipelines.sql.spec import SqlSpec

GOOD = """
kind = "sql"
name_server = "127.0.0.1:9876"
checkpoint = "state"
trigger = "2 seconds"

[spark]
master = "local[2]"
conf = { "spark.sql.shuffle.partitions" = 4 }

[source.orders]
topic = ["orders", "returns"]
decode = "json"
schema = "id STRING, at TIMESTAMP"
watermark = { column = "at", delay = "1 minute" }
options = { startingOffsets = { orders = { a = { 0 = 12 } } }, failOnDataLoss = false }

[[step]]
name = "counts"
sql = "SELECT window(at, '1 minute').start AS minute, count(*) AS n FROM orders GROUP BY 1"

[[sink]]
topic = "counts"

[[sink]]
format = "parquet"
path = "out"
"""


def write(directory: Path, text: str, name: str = "orders.toml") -> Path:
    file = directory / name
    file.write_text(text)
    return file


def mistakes(file: Path, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(BadPipeline) as caught:
        load(file, environment or {})
    return list(caught.value.mistakes)


def test_a_valid_file_is_parsed_into_its_specification(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, GOOD), {})
    spec = loaded.spec
    assert isinstance(spec, SqlSpec)
    assert spec.name == "orders"
    assert loaded.directory == tmp_path
    assert spec.trigger.interval == Interval(2000)
    assert spec.spark.conf == {"spark.sql.shuffle.partitions": "4"}
    orders = spec.source["orders"]
    assert orders.reader_options(spec.name_server) == {
        "nameServer": "127.0.0.1:9876",
        "subscribe": "orders,returns",
        "startingOffsets": '{"orders": {"a": {"0": 12}}}',
        "failOnDataLoss": "false",
    }
    assert orders.watermark is not None
    assert orders.watermark.delay == Interval(60_000)
    assert [sink.format for sink in spec.sink] == ["rocketmq", "parquet"]


def test_a_yaml_file_equals_its_toml_form(tmp_path: Path) -> None:
    text = """
kind: sql
name: orders
name_server: 127.0.0.1:9876
checkpoint: state
source:
  orders: {topic: orders}
sink:
  - format: console
"""
    spec = load(write(tmp_path, text, "orders.yaml"), {}).spec
    assert isinstance(spec, SqlSpec)
    assert spec.source["orders"].topic == ("orders",)


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    text = """
kind = "sql"
trigger = "soon"
checkpont = "state"
[spark]
conf = { "sql.shuffle.partitions" = 4 }
[source.orders]
topik = "orders"
decode = "jason"
infer_from = "many"
[[step]]
sql = "SELECT 1"
[sink]
topic = "x"
"""
    assert mistakes(write(tmp_path, text)) == [
        "orders.toml: checkpont: unknown key; did you mean 'checkpoint'?",
        "orders.toml: spark.conf.sql.shuffle.partitions: settings of Spark begin with 'spark.'",
        "orders.toml: source.orders.topik: unknown key; did you mean 'topic'?",
        "orders.toml: source.orders.decode: 'jason' is not possible; did you mean 'json'?",
        "orders.toml: source.orders.infer_from: must be a whole number, not a text ('many')",
        "orders.toml: sink: must be a list of tables: write [[sink]], not [sink]",
        "orders.toml: step[0].name: is needed, but not there",
        (
            "orders.toml: trigger: 'soon' is neither a length of time such as '5 seconds' nor "
            "'available-now' nor 'batch'"
        ),
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('checkpoint = "state"', ""), ["checkpoint: is needed, but not there: the directory"]),
        (('topic = "counts"', 'topic = "counts"\nof = "count"'), ["did you mean 'counts'?"]),
        (('name = "counts"', 'name = "orders"'), ["step[0].name: there is a source or step"]),
        (('name = "counts"', 'name = "Orders"'), ["source or step called 'orders' already"]),
        (('name = "counts"', 'name = "a-b"'), ["letters, digits and _ only"]),
        (('path = "out"', ""), ["sink[1].path: is needed by the format 'parquet'"]),
        (('path = "out"', 'path = "out"\ntopic="t"'), ["sink[1].topic: is for topics"]),
        (
            ('topic = ["orders", "returns"]', 'pattern = "o.*"\ntopic = "x"'),
            ["source.orders: needs exactly one of topic, pattern and options.assign"],
        ),
        (
            ('name_server = "127.0.0.1:9876"', ""),
            ["sink[0].name_server: is needed", "source.orders.name_server: is needed"],
        ),
        (('decode = "json"', 'decode = "text"'), ["schema: means nothing with decode"]),
        (('kind = "sql"', 'kind = "sqll"'), ["kind: 'sqll' is not possible; did you mean 'sql'"]),
        (('kind = "sql"', ""), ["kind: is needed, but not there; one of sql, archive"]),
        (('name = "counts"', "name = [1"), ["is not TOML: "]),
        (('delay = "1 minute"', 'delay = "a bit"'), ["'a bit' is not a length of time"]),
    ],
)
def test_contradictory_keys_are_reported(
    tmp_path: Path, change: tuple[str, str], expected: list[str]
) -> None:
    assert change[0] in GOOD
    said = mistakes(write(tmp_path, GOOD.replace(*change)))
    assert len(said) == len(expected)
    for line, text in zip(said, expected, strict=True):
        assert line.startswith("orders.toml: ")
        assert text in line


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    assert "No such file" in mistakes(tmp_path / "none.toml")[0]
    assert ".toml, .yaml or .yml" in mistakes(write(tmp_path, "", "x.json"))[0]
    twice = "kind: sql\nname: a\nname: b\n"
    assert mistakes(write(tmp_path, twice, "x.yaml")) == [
        "x.yaml: is not YAML: the key 'name' is there twice (line 3)"
    ]


def test_secrets_come_from_the_environment_and_are_never_shown(tmp_path: Path) -> None:
    options = 'options = { accessKey = "${KEY}", secretKey = "${ORBIT_SECRET}" }'
    start = GOOD.index("options =")
    text = GOOD[:start] + options + GOOD[GOOD.index("\n", start) :]
    file = write(tmp_path, text)
    assert mistakes(file, {"KEY": "shopkey"}) == [
        (
            "orders.toml: source.orders.options.secretKey: "
            "the environment variable ORBIT_SECRET is not set"
        )
    ]
    loaded = load(file, {"ORBIT_SECRET": "hunter2hunter2", "KEY": "shopkey"})
    assert isinstance(loaded.spec, SqlSpec)
    options_read = loaded.spec.source["orders"].options
    assert options_read == {"accessKey": "shopkey", "secretKey": "hunter2hunter2"}
    assert loaded.secrets.strike_out("failed: hunter2hunter2 refused") == "failed: *** refused"
    assert loaded.secrets.shown(options_read)["secretKey"] == "***"


@pytest.mark.parametrize(
    "value", ['"hunter2hunter2"', '"${NOPE:-hunter2}"', '"$${hunter2}"', "2864325", "28643.25"]
)
def test_a_secret_in_the_file_is_a_mistake_that_does_not_repeat_it(
    tmp_path: Path, value: str
) -> None:
    text = GOOD.replace("failOnDataLoss = false", f"secretKey = {value}")
    said = mistakes(write(tmp_path, text))
    assert "source.orders.options.secretKey: is a secret and does not belong" in said[0]
    assert "hunter2" not in "".join(said)
    assert "28643" not in "".join(said)


def test_a_numeric_secret_is_redacted() -> None:
    secrets = Secrets()
    secrets.fill_in({"password": 87654321}, {}, Mistakes("x.toml"))
    assert secrets.strike_out("refused: 87654321") == "refused: ***"
    assert secrets.shown({"password": "87654321"}) == {"password": "***"}


def test_the_default_of_a_secret_may_be_empty(tmp_path: Path) -> None:
    text = GOOD.replace("failOnDataLoss = false", 'securityToken = "${TOKEN:-}"')
    assert load(write(tmp_path, text), {}).spec.kind == "sql"


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("secretKey", True),
        ("accessKey", True),
        ("securityToken", True),
        ("secret_key", True),
        ("spark.ssl.keyPassword", True),
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("authToken", True),
        ("sasToken", True),
        ("clientSecret", True),
        ("private_key", True),
        ("fs.azure.account.key.shop.dfs.core.windows.net", True),
        ("fs.azure.sas.fixed.token.box.shop.dfs.core.windows.net", True),
        ("spark.authenticate.secret", True),
        ("sasl.password", True),
        ("tokens[0]", False),
        ("topic", False),
        ("keys", False),
        ("primaryKeys", False),
        ("shardingKey", False),
        ("partitionKey", False),
        ("tlsKeyFile", False),
        ("private_key_file", False),
        ("privateKeyId", False),
        ("tokenizer", False),
        ("authTokenFile", False),
        ("maxTokens", False),
    ],
)
def test_secret_keys_are_recognised_by_name(key: str, secret: bool) -> None:
    assert is_secret(key) is secret
