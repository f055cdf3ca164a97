"""The metrics of a coordinator, read by Prometheus' own client library, and the alerts of docs/alerts.yml, which ask for them."""

import json
import os
import re
import urllib.request

import pymemcache
import yaml
from prometheus_client.parser import text_string_to_metric_families

from expect import address, becomes, case, equal, main, true

HOST, PORT = address("SHORTTAIL_MEMCACHED")
ADMIN = "http://%s:%d" % address("SHORTTAIL_ADMIN")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def fetch(path):
    with urllib.request.urlopen(ADMIN + path, timeout=30) as answer:
        return answer.headers, answer.read().decode()


def families():
    headers, text = fetch("/metrics")
    true(headers["Content-Type"].startswith("text/plain; version=0.0.4"), "the content type names the format")
    found = {}
    for family in text_string_to_metric_families(text):
        true(family.name not in found, f"{family.name} is described once")
        true(family.documentation, f"{family.name} has a help text")
        true(family.type in ("gauge", "counter", "histogram"), f"{family.name} has a type: {family.type}")
        found[family.name] = family
    return found


def value(found, name, **labels):
    samples = [s for family in found.values() for s in family.samples if s.name == name and s.labels == labels]
    equal(len(samples), 1)
    return samples[0].value


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def alerts():
    return [rule for group in yaml.safe_load(text_of("docs/alerts.yml"))["groups"] for rule in group["rules"]]


def sections(path):
    """What links may name behind a `#`, as sites that show such pages make it of headings."""
    headings = re.findall(r"^#+ (.*)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@case
def every_family_parses():
    """every family has a help text, a type and samples that parse"""
    found = families()
    for name in ("shorttail_objects", "shorttail_node_up", "shorttail_gateway_hedges_sent"):
        true(name in found, name)
    true(all(sample.name.startswith("shorttail_") for family in found.values() for sample in family.samples), "one prefix")


@case
def what_benchmarks_count_is_there():
    """the counters by which `shorttail bench tail` tells what was done about a slow node"""
    samples = {sample.name for family in families().values() for sample in family.samples}
    counters = "hedges_sent hedges_won hedge_budget_exhausted degraded_reads redirected_writes".split()
    for name in [f"shorttail_gateway_{counter}_total" for counter in counters] + ["shorttail_node_latency_seconds_count"]:
        true(name in samples, name)


@case
def nodes_have_latencies():
    """reads and writes of every node are counted in buckets that add up"""
    client = pymemcache.Client((HOST, PORT), timeout=60)
    for number in range(2000):
        client.set("metrics%d" % number, b"x" * 500)
    client.close()

    def counts(operation):
        samples = families()["shorttail_node_latency_seconds"].samples
        return [s for s in samples if s.name.endswith("_count") and s.labels["operation"] == operation]

    # The gateway reports twice a second.
    becomes(True, lambda: sum(sample.value for sample in counts("write")) > 0)
    status = json.loads(fetch("/status")[1])
    equal({int(sample.labels["node"]) for sample in counts("write")}, {node["id"] for node in status["nodes"]})
    found = families()
    for count in (s for s in found["shorttail_node_latency_seconds"].samples if s.name.endswith("_count")):
        buckets = [
            (float(s.labels["le"]), s.value)
            for s in found["shorttail_node_latency_seconds"].samples
            if s.name.endswith("_bucket") and {k: v for k, v in s.labels.items() if k != "le"} == count.labels
        ]
        equal(buckets, sorted(buckets))
        equal(buckets[-1], (float("inf"), count.value))


@case
def the_status_agrees():
    """what the status says is what the metrics say"""
    found, status = families(), json.loads(fetch("/status")[1])
    equal(value(found, "shorttail_nodes_expected"), status["nodes_expected"])
    for node in status["nodes"]:
        limit = value(found, "shorttail_node_memory_limit_bytes", node=str(node["id"]))
        equal(limit, node["memory_limit_bytes"])
        for key in ("fail_slow", "latency_us_p50", "latency_us_p99", "redirect_count"):
            true(key in node, key)


@case
def alerts_ask_for_what_is_there():
    """the rules of docs/alerts.yml are rules, and ask for metrics that there are"""
    samples = {sample.name for family in families().values() for sample in family.samples}
    rules = alerts()
    equal(len({rule["alert"] for rule in rules}), len(rules))
    for rule in rules:
        true(set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, f"{rule['alert']}: {sorted(rule)}")
        true(re.fullmatch(r"\d+[smh]", rule.get("for", "0s")), f"{rule['alert']} waits for a time: {rule.get('for')}")
        true(rule["labels"]["severity"] in ("warning", "critical"), f"{rule['alert']} has a severity")
        asked = re.findall(r"shorttail_\w+", rule["expr"])
        true(asked, f"{rule['alert']} asks for a metric")
        for name in asked:
            true(name in samples, f"{rule['alert']} asks for {name}")


@case
def alerts_say_what_to_do():
    """each alert has a section to read, and a row in the reference"""
    table = text_of("docs/REFERENCE.md")
    for rule in alerts():
        path, _, section = rule["annotations"]["runbook"].partition("#")
        true(section in sections(path), f"{rule['alert']}: {path} has a section {section}")
        true(rule["annotations"]["summary"] and rule["annotations"]["description"], f"{rule['alert']} says what it is about")
        true(f"`{rule['alert'].removeprefix('Shorttail')}`" in table, f"the reference has {rule['alert']}")


main()
