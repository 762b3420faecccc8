//! docs/deploy/prometheus.md and the dashboard beside it, with Debian's node_exporter, Prometheus and Alertmanager.

use super::{BackgroundProcess, example, firstlight, judged, sh, shell, wait};
use harness::workspace;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The page's files in a folder, with these ports in place of the usual ones of node_exporter and Alertmanager.
fn files(node: u16, alerts: u16) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["firstlight.rules.yml", "prometheus.yml", "alertmanager.yml"] {
        let text = example("prometheus.md", &format!("/etc/prometheus/{file}"));
        let text = text
            .replace(":9100", &format!(":{node}"))
            .replace(":9093", &format!(":{alerts}"));
        fs::write(dir.path().join(file), text).unwrap();
    }
    dir
}

#[test]
fn promtool_and_amtool_accept_the_files_and_refuse_broken_ones() {
    let dir = files(9100, 9093);
    sh(
        dir.path(),
        "promtool check config prometheus.yml; amtool check-config alertmanager.yml",
    );
    let broken =
        "sed -i 's/expr: firstlight_verdict{verdict=\"DEGRADED\"}/expr: firstlight_verdict{{/' firstlight.rules.yml
        ! promtool check config prometheus.yml";
    sh(dir.path(), broken);
}

/// Series, and the alerts that they must cause: alert, series, its samples, and how many alerts fire.
const RULES: [(&str, &str, &str, usize); 11] = [
    (
        "FirstlightBad",
        "firstlight_verdict{verdict=\"FAIL\",instance=\"a\"}",
        "1x40",
        1,
    ),
    (
        "FirstlightBad",
        "firstlight_verdict{verdict=\"ERROR\",instance=\"a\"}",
        "1x40",
        1,
    ),
    (
        "FirstlightBad",
        "firstlight_verdict{verdict=\"FAIL\",instance=\"a\"}",
        "0x40",
        0,
    ),
    (
        "FirstlightBad",
        "firstlight_verdict{verdict=\"PASS\",instance=\"a\"}",
        "1x40",
        0,
    ),
    (
        "FirstlightDegraded",
        "firstlight_verdict{verdict=\"DEGRADED\",instance=\"a\"}",
        "1x40",
        1,
    ),
    (
        "FirstlightMissing",
        "up{job=\"gpu-nodes\",instance=\"a\"}",
        "1x40",
        1,
    ),
    (
        "FirstlightMissing",
        "up{job=\"other\",instance=\"a\"}",
        "1x40",
        0,
    ),
    (
        "FirstlightOld",
        "firstlight_start_time_seconds{instance=\"a\"}",
        "-2592001x40",
        1,
    ),
    (
        "FirstlightPartial",
        "firstlight_scope{scope=\"fabric\",instance=\"a\"}",
        "1x40",
        1,
    ),
    (
        "FirstlightPartial",
        "firstlight_scope{scope=\"machine\",instance=\"a\"}",
        "1x40",
        0,
    ),
    (
        "FirstlightUnreadable",
        "node_textfile_scrape_error{instance=\"a\"}",
        "1x40",
        1,
    ),
];

#[test]
fn each_rule_fires_when_it_should_and_not_otherwise() {
    let dir = files(9100, 9093);
    let query =
        |alert: &str| format!("count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
    let mut tests =
        String::from("rule_files: [firstlight.rules.yml]\nevaluation_interval: 1m\ntests:\n");
    let mut add = |series: &str, alert: &str, fires: usize| {
        let samples = if fires == 0 {
            "[]".into()
        } else {
            format!("[{{value: {fires}}}]")
        };
        tests += &format!(
            "- interval: 1m\n  input_series:\n{series}  promql_expr_test:\n  - expr: '{}'\n    eval_time: 30m\n    exp_samples: {samples}\n",
            query(alert)
        );
    };
    let line =
        |series: &str, values: &str| format!("  - series: '{series}'\n    values: '{values}'\n");
    for (alert, series, values, fires) in RULES {
        add(&line(series, values), alert, fires);
    }
    // The rules that compare two series.
    let own = ["verdict", "info", "scope", "start_time_seconds"];
    for lost in [None].into_iter().chain(own.map(Some)) {
        let kept = own.iter().filter(|name| Some(**name) != lost);
        let kept: String = kept
            .map(|name| line(&format!("firstlight_{name}{{instance=\"a\"}}"), "1x40"))
            .collect();
        let all = line("up{job=\"gpu-nodes\",instance=\"a\"}", "1x40") + &kept;
        add(&all, "FirstlightMissing", usize::from(lost.is_some()));
    }
    for (began, boot, fires) in [("10x40", "20x40", 1), ("20x40", "10x40", 0)] {
        let both = line("firstlight_start_time_seconds{instance=\"a\"}", began)
            + &line("node_boot_time_seconds{instance=\"a\"}", boot);
        add(&both, "FirstlightOld", fires);
    }
    fs::write(dir.path().join("tests.yml"), &tests).unwrap();
    sh(dir.path(), "promtool test rules tests.yml");
    // promtool reports a rule that never fires.
    sh(
        dir.path(),
        "sed -i 's/== 1/== 2/' firstlight.rules.yml; ! promtool test rules tests.yml",
    );
}

fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn background(at: &Path, program: &str, words: &[String]) -> BackgroundProcess {
    let log = fs::File::create(at.join(format!("{program}.log"))).unwrap();
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(at)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap());
    BackgroundProcess::start(command.stderr(log))
}

/// A server's answer to a GET, as JSON; `None` while there is none.
fn get(url: &str, query: &str) -> Option<Value> {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--fail",
        "--get",
        "--max-time",
        "10",
        url,
        "--data-urlencode",
        query,
    ]);
    serde_json::from_slice(&command.output().unwrap().stdout).ok()
}

#[test]
fn wrong_data_becomes_an_alert_and_the_dashboard_s_queries_have_answers() {
    let (node, alerts, prometheus) = (port(), port(), port());
    let dir = files(node, alerts);
    let at = dir.path();
    let report = judged("zeros");
    let out = at.join("text/firstlight.prom");
    fs::create_dir(at.join("text")).unwrap();
    // The command of firstlight-metrics.service.
    let unit =
        fs::read_to_string(workspace().join("image/package/firstlight-metrics.service")).unwrap();
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/firstlight "))
        .unwrap();
    let line = line.replace(
        "/run/firstlight/report.json",
        &report.path().join("report.json").display().to_string(),
    );
    sh(
        at,
        &format!(
            "TEXTFILES=text; {} {line}; promtool check metrics < {}",
            firstlight().display(),
            out.display()
        ),
    );
    let metrics = fs::read_to_string(&out).unwrap();
    for label in [
        "host",
        "machine_id",
        "serial",
        "product",
        "kernel",
        "driver",
        "uuid",
        "vbios",
    ] {
        assert!(
            metrics.contains(&format!(",{label}=\"")),
            "no {label}: {metrics}"
        );
    }
    sh(
        at,
        "sed -i '1iglobal: { scrape_interval: 1s, evaluation_interval: 1s }' prometheus.yml",
    );

    let words = |all: &[String]| all.to_vec();
    let _node = background(
        at,
        "prometheus-node-exporter",
        &words(&[
            format!("--web.listen-address=127.0.0.1:{node}"),
            "--collector.textfile.directory=text".into(),
        ]),
    );
    let _alerts = background(
        at,
        "prometheus-alertmanager",
        &words(&[
            "--config.file=alertmanager.yml".into(),
            "--storage.path=alerts".into(),
            "--cluster.listen-address=".into(),
            format!("--web.listen-address=127.0.0.1:{alerts}"),
        ]),
    );
    let _prometheus = background(
        at,
        "prometheus",
        &words(&[
            "--config.file=prometheus.yml".into(),
            "--storage.tsdb.path=data".into(),
            format!("--web.listen-address=127.0.0.1:{prometheus}"),
        ]),
    );
    let alert = wait("the alert", || {
        let all = get(
            &format!("http://127.0.0.1:{alerts}/api/v2/alerts"),
            "active=true",
        )?;
        all.as_array()?
            .iter()
            .find(|alert| alert["labels"]["alertname"] == "FirstlightBad")
            .cloned()
    });
    let description = alert["annotations"]["description"].as_str().unwrap();
    assert!(
        description.contains("P2P: NO, GPU 0 -> 1")
            && description.contains("First: do not use peer-to-peer"),
        "{alert}"
    );
    assert_eq!(
        alert["annotations"]["summary"],
        format!("localhost:{node}: GPU test FAIL")
    );

    let url = format!("http://127.0.0.1:{prometheus}/api/v1/query");
    let error = get(&url, "query=node_textfile_scrape_error").unwrap();
    assert_eq!(error["data"]["result"][0]["value"][1], "0", "{error}");

    let board = fs::read_to_string(workspace().join("docs/deploy/grafana.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let mut ids: Vec<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len());
    let exprs = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked = 0;
    for expr in exprs.map(|target| target["expr"].as_str().unwrap()) {
        let query = format!("query={}", expr.replace("$instance", ".*"));
        let answer = get(&url, &query).unwrap_or_else(|| panic!("Prometheus refuses {query}"));
        assert!(
            !answer["data"]["result"].as_array().unwrap().is_empty(),
            "no answer to {query}"
        );
        asked += 1;
    }
    assert!(asked >= 8, "{asked}");
    let unknown = shell(
        at,
        &format!(
            "curl -sf 'http://127.0.0.1:{prometheus}/api/v1/query?query=firstlight_nothing' | grep '\"result\":\\[\\]'"
        ),
    );
    assert!(
        unknown.status.success(),
        "a metric that does not exist has an answer"
    );
}
