"""The documentation of the job file agrees with the code."""

import re
from pathlib import Path

import pyspark
import pytest

from tests.support.spark_session import POSTGRES_DRIVER
from tests.unit.config.test_job_file import JOB, KAFKA, SINK, load
from ticdc_spark.config.job import StorageSource
from ticdc_spark.spark.session.session import coordinates

DOCS = Path(__file__).resolve().parents[2] / "docs"
JOB_FILE = (DOCS / "reference" / "job-file.md").read_text(encoding="utf-8")


def rows(section: str) -> dict[str, str]:
    """Key to its default, of the table of a section."""
    table = JOB_FILE.partition(f"<!-- keys {section} -->\n\n")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| [^|]+ \| *(.*?) *\| .+ \|$", table, re.MULTILINE))


def test_documented_defaults_are_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    sections: dict[str, dict[str, str]] = {"job": JOB, "source": KAFKA, "sink": SINK, "schema": {}, "ddl": {}}
    plain = load(tmp_path, **sections)
    seen = 0
    for title, documented in (
        ("job", rows("job")),
        ("ddl", rows("ddl")),
        ("source", rows("kafka")),
        ("sink", rows("iceberg")),
    ):
        for key, default in documented.items():
            if not re.fullmatch(r"`[^`]+`", default):
                continue
            with_it = load(tmp_path, **sections | {title: sections[title] | {key: default.strip("`")}})
            assert with_it == plain, key
            seen += 1
    assert seen >= 20


def test_the_documented_example_is_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ticdc_spark.config.job import KafkaSource
    from ticdc_spark.config.load import load_job

    monkeypatch.setenv("KAFKA_PASSWORD", "a long password")
    example, ddl, secure = re.findall(r"```toml\n(.*?)```", JOB_FILE, re.DOTALL)
    (tmp_path / "job.toml").write_text(example + ddl)
    job = load_job(tmp_path / "job.toml")
    assert job.spark == {"spark.master": "local[4]"}
    of = {name: job.ddl.of(("shop", name)) for name in ("orders", "tmp_a")}
    assert (of["orders"].drop_table, of["orders"].drop_column, of["tmp_a"].drop_table) == ("stop", "keep", "apply")
    for name in ("ca.pem", "client.pem"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\n")
    plain = re.sub(r'"kafka\..*\n', "", example).replace("[source]\n", secure)
    (tmp_path / "job.toml").write_text(plain)
    source = load_job(tmp_path / "job.toml").source
    assert isinstance(source, KafkaSource)
    assert source.options["kafka.ssl.keystore.location"] == str(tmp_path / "client.pem")


def test_the_first_job_of_the_readme_is_a_job(tmp_path: Path) -> None:
    from ticdc_spark.config.load import load_job

    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "shop.toml").write_text(example)
    job = load_job(tmp_path / "shop.toml")
    assert (job.name, job.sink.warehouse) == ("shop", str(tmp_path / "lake"))
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", readme):
        assert (DOCS.parent / target).exists(), target


def test_the_jobs_of_the_cluster_page_are_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ticdc_spark.config.load import load_job

    monkeypatch.setenv("LAKE_ACCESS_KEY", "shop-access")
    monkeypatch.setenv("LAKE_SECRET_KEY", "shop-secret-31415926")
    examples = re.findall(r"```toml\n(.*?)```", (DOCS / "how-to" / "deploy.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.setenv("CATALOG_CREDENTIAL", "shop:shop-secret-31415926")
    monkeypatch.setenv("CATALOG_PASSWORD", "shop-secret-27182818")
    (tmp_path / "lake-ca.pem").touch()
    before_sink = examples[0].partition("[sink]")[0]
    for example in examples:
        (tmp_path / "shop.toml").write_text(example if "[job]" in example else before_sink + example)
        assert load_job(tmp_path / "shop.toml").sink.warehouse == "s3://lake/house"
    assert "spark.master" not in examples[0] and "spark.master" in examples[-1]


def test_the_sections_of_the_storage_page_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ticdc_spark.config.load import load_job

    monkeypatch.setenv("FEED_ACCESS_KEY", "feed-access")
    monkeypatch.setenv("FEED_SECRET_KEY", "feed-secret-31415926")
    (tmp_path / "feed").mkdir()
    _, job, csv, lines, bucket = re.findall(
        r"```toml\n(.*?)```", (DOCS / "how-to" / "storage.md").read_text(encoding="utf-8"), re.DOTALL
    )
    found = []
    for source in (job, csv, lines, bucket):
        rest = "" if "[sink]" in source else re.sub(r"\[source\]\n(.+\n)+", "", job)
        (tmp_path / "job.toml").write_text(rest + source)
        one = load_job(tmp_path / "job.toml").source
        assert isinstance(one, StorageSource)
        found.append(one)
    assert [one.path for one in found] == [*[str(tmp_path / "feed")] * 3, "s3a://bucket/feed"]
    assert [one.csv is not None for one in found] == [False, True, True, False]
    assert [one.terminator for one in found[1:3]] == ["\r\n", "\n"]
    assert len(found[3].options) == 3


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", DOCS.parent / "CHANGELOG.md", *DOCS.rglob("*.md")],
    ids=lambda page: str(page.relative_to(DOCS.parent)),
)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), f"{target}#{anchor}"


def test_every_file_of_the_sources_that_names_a_page_names_one_that_is_there() -> None:
    for folder in ("src", "scripts", "tests", "deploy", "monitoring", "benchmarks"):
        for file in (DOCS.parent / folder).rglob("*.*"):
            if file.suffix in {".py", ".yaml", ".json", ".md"}:
                for page in re.findall(r"docs/[a-z-]+(?:/[a-z-]+)*\.md", file.read_text(encoding="utf-8")):
                    assert (DOCS.parent / page).exists(), f"{file}: {page}"


def test_the_maven_coordinates_in_the_pages_are_those_of_the_spark_that_is_installed() -> None:
    ours = {each.rpartition(":")[0]: each for each in coordinates("iceberg", "sqlite", "kafka")}
    iceberg = ours[next(name for name in ours if "iceberg-spark-runtime" in name)].rpartition(":")[2]
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    hadoop = client.stem.rpartition("-")[2]
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    named = [
        each for page in pages for each in re.findall(r"(?:org\.[\w.]+):[\w.-]+:[\d.]+\d", page.read_text("utf-8"))
    ]
    assert any("iceberg-spark-runtime" in each for each in named)
    for each in named:
        group_and_name, _, version = each.rpartition(":")
        if group_and_name in ours:
            assert each == ours[group_and_name]
        else:
            assert (group_and_name, version) in {
                ("org.apache.iceberg:iceberg-aws-bundle", iceberg),
                ("org.apache.hadoop:hadoop-aws", hadoop),
                tuple(POSTGRES_DRIVER.rsplit(":", 1)),
            }, each
