//! What holds for a store on a PostgreSQL server alone: who may use it, how its tables are made, and what is refused.

use super::{Kind, SERVER, TestServer, ended, json, report, secret};
use harness::postgres::{PASSWORD, Postgres};
use outcome::Outcome;
use report::Report;
use std::process::{Command, Output, Stdio};
use std::thread;
use tempfile::TempDir;

/// Starts a receiver that must not start; returns its line.
fn refused(words: &[&str], password: Option<&str>) -> String {
    // One that starts nevertheless ends after that time.
    let mut command = Command::new("timeout");
    command
        .args([
            "60",
            env!("CARGO_BIN_EXE_firstlight-collect"),
            "--listen",
            "127.0.0.1:0",
            "--store",
        ])
        .args(words);
    command.env_remove("PGPASSWORD");
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    let Output {
        status,
        stdout,
        stderr,
    } = command.stdin(Stdio::null()).output().unwrap();
    let line = String::from_utf8(stderr).unwrap();
    assert!(
        !status.success() && stdout.is_empty() && line.lines().count() == 1,
        "{words:?}: {status} {line}"
    );
    line
}

/// The tables of a database: its version, and its tables with their columns and indexes.
fn tables(database: &str) -> String {
    let version = SERVER
        .sql(database, "SELECT number FROM firstlight.version")
        .unwrap();
    let sql =
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
        WHERE table_schema = 'firstlight' ORDER BY 1, ordinal_position;";
    let indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'firstlight' ORDER BY 1";
    version + &SERVER.sql(database, sql).unwrap() + &SERVER.sql(database, indexes).unwrap()
}

#[test]
fn a_password_is_demanded_and_never_shown() {
    let dir = TempDir::new().unwrap();
    let database = SERVER.database().unwrap();
    let url = SERVER.loopback_url(&database);
    let (right, wrong) = (
        secret(&dir, "right", &format!("{PASSWORD}\n")),
        secret(&dir, "wrong", "tops3cret"),
    );
    for (words, password, says) in [
        (vec![url.as_str()], None, "password missing"),
        (
            vec![&url],
            Some("tops3cret"),
            "password authentication failed",
        ),
        (
            vec![&url, "--store-password-file", &wrong],
            Some(PASSWORD),
            "password authentication failed",
        ),
        (
            vec![&url.replace("postgres@", "postgres:tops3cret@")],
            None,
            "could be read by all users",
        ),
    ] {
        let line = refused(&words, password);
        assert!(line.contains(says), "{line}");
        assert!(
            !line.contains("tops3cret") && !line.contains(PASSWORD),
            "{line}"
        );
    }
    // By a file, and by the environment.
    let running = TestServer::start(url.as_ref(), &["--store-password-file", &right]);
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Pass, 20.0))).0,
        201
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstlight-collect"));
    command
        .args(["--listen", "127.0.0.1:0", "--store", &url])
        .env("PGPASSWORD", PASSWORD);
    let other = TestServer::spawn(command);
    assert_eq!(other.metric("firstlight_collect_reports"), 1);
    running.signal("TERM");
    let (status, log) = running.end();
    assert!(status == Some(0) && !log.contains(PASSWORD), "{log}");
}

#[test]
fn several_receivers_that_start_together_make_the_tables_once() {
    let database = SERVER.database().unwrap();
    let url = SERVER.socket_url(&database);
    let running: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| TestServer::start(url.as_ref(), &[])))
            .collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (number, one) in running.iter().enumerate() {
        assert_eq!(
            one.post(
                "",
                &json(&report(&format!("n{number}"), Outcome::Pass, 20.0))
            )
            .0,
            201
        );
    }
    for one in &running {
        assert_eq!(one.metric("firstlight_collect_reports"), 4);
    }
    assert_eq!(
        SERVER
            .sql(
                &database,
                "SELECT count(*), max(number) FROM firstlight.version"
            )
            .unwrap(),
        "1|2\n"
    );
}

#[test]
fn earlier_tables_are_brought_up_to_date_and_later_ones_are_refused() {
    let database = SERVER.database().unwrap();
    let url = SERVER.socket_url(&database);
    let running = TestServer::start(url.as_ref(), &[]);
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Fail, 20.0))).0,
        201
    );
    drop(running);
    let whole = tables(&database);
    assert!(
        whole.contains("report_of_node") && whole.contains("double precision"),
        "{whole}"
    );
    // Version 1 had no indexes for the pages.
    let earlier = "DROP INDEX firstlight.report_of_verdict, firstlight.report_of_node, firstlight.node_newest,
        firstlight.node_of_verdict; UPDATE firstlight.version SET number = 1";
    SERVER.sql(&database, earlier).unwrap();
    assert_ne!(tables(&database), whole);
    let running = TestServer::start(url.as_ref(), &[]);
    assert_eq!(tables(&database), whole);
    assert!(running.get("/?verdict=FAIL").1.contains(">n<"));
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Pass, 21.0))).0,
        201
    );

    // A later version: a receiver that runs stores nothing more, and none starts.
    SERVER
        .sql(&database, "UPDATE firstlight.version SET number = 3")
        .unwrap();
    let (status, line) = running.post("", &json(&report("n", Outcome::Pass, 22.0)));
    assert!(
        status == 503 && line.contains("its version is 3, and this program knows 2"),
        "{status} {line}"
    );
    let line = refused(&[&url], None);
    assert!(
        line.contains(&format!(
            "/{database}: its version is 3, and this program knows 2"
        )),
        "{line}"
    );
    assert_eq!(
        SERVER
            .sql(&database, "SELECT count(*) FROM firstlight.report")
            .unwrap(),
        "2\n"
    );
}

#[test]
fn a_step_that_fails_leaves_nothing_of_the_others() {
    let database = SERVER.database().unwrap();
    let url = SERVER.socket_url(&database);
    // Something has the name of what the last step makes.
    SERVER
        .sql(
            &database,
            "CREATE SCHEMA firstlight; CREATE TABLE firstlight.node_newest (x int)",
        )
        .unwrap();
    let line = refused(&[&url], None);
    assert!(
        line.contains("\"node_newest\" already exists (42P07)"),
        "{line}"
    );
    let sql = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'firstlight'";
    assert_eq!(SERVER.sql(&database, sql).unwrap(), "1\n");
    SERVER
        .sql(&database, "DROP TABLE firstlight.node_newest")
        .unwrap();
    let running = TestServer::start(url.as_ref(), &[]);
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Pass, 20.0))).0,
        201
    );
}

#[test]
fn a_database_that_could_lose_reports_is_refused_and_a_lax_commit_is_not_used() {
    let database = SERVER.database().unwrap();
    let latin = format!("{database}latin");
    let sql = format!("CREATE DATABASE {latin} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    SERVER.sql("postgres", &sql).unwrap();
    let line = refused(&[&SERVER.socket_url(&latin)], None);
    assert!(
        line.contains("its encoding is LATIN1, and must be UTF8"),
        "{line}"
    );
    SERVER
        .sql(
            "postgres",
            &format!("ALTER DATABASE {database} SET synchronous_commit = off"),
        )
        .unwrap();
    SERVER
        .sql(
            "postgres",
            &format!(
                "ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'"
            ),
        )
        .unwrap();
    // What each transaction that stores a report runs with.
    let url = SERVER.socket_url(&database);
    let running = TestServer::start(url.as_ref(), &[]);
    let spy = "CREATE TABLE public.seen (commit text, isolation text);
        CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen VALUES
            (current_setting('synchronous_commit'), current_setting('transaction_isolation')); RETURN NULL; END $$;
        CREATE TRIGGER look AFTER INSERT ON firstlight.report EXECUTE FUNCTION public.look()";
    SERVER.sql(&database, spy).unwrap();
    assert_eq!(
        running.post("", &json(&report("n", Outcome::Pass, 20.0))).0,
        201
    );
    assert_eq!(
        SERVER.sql(&database, "SELECT * FROM public.seen").unwrap(),
        "on|read committed\n"
    );
}

#[test]
fn a_text_that_postgresql_cannot_store_is_stored_without_that_character() {
    let dir = TempDir::new().unwrap();
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let running = TestServer::start(&kind.store(&dir), &[]);
        let mut with_nul = report("n\0ul", Outcome::Fail, 20.0);
        with_nul = Report {
            started: "\0".into(),
            ..with_nul
        };
        with_nul.machine.machine_id = Some("a\0b".into());
        for number in 0..2 {
            with_nul.seconds = f64::from(number);
            assert_eq!(running.post("", &json(&with_nul)).0, 201, "{kind:?}");
        }
        assert!(
            running
                .get("/")
                .1
                .contains("<h1>1 of 1 node does not pass</h1>"),
            "{kind:?}"
        );
        assert!(running.get("/reports").1.contains("ul<"), "{kind:?}");
    }
}

#[test]
fn what_is_no_server_is_refused_in_one_line() {
    let dir = TempDir::new().unwrap();
    let password = secret(&dir, "password", "tops3cret");
    for (words, status, says) in [
        (
            vec!["--store", "mysql://u@h/d"],
            64,
            "allowed: a folder, or postgres://USER@HOST:PORT/DATABASE",
        ),
        (
            vec!["--store", "postgres://u@db.example/d"],
            64,
            "the database is on another machine",
        ),
        (
            vec!["--store", "postgres://u@127.0.0.1:1/d"],
            2,
            "postgres://u@127.0.0.1:1/d: error connecting to server: Connection refused",
        ),
        (
            vec!["--store", "postgres:///d?host=/none&user=u"],
            2,
            "postgres://u@/none:5432/d: error connecting to server",
        ),
        (
            vec!["--store", "/tmp", "--store-password-file", &password],
            64,
            "is for a --store that is a PostgreSQL server",
        ),
        (
            vec![
                "--store",
                "postgres://u@127.0.0.1:1/d",
                "--store-password-file",
                "/none",
            ],
            2,
            "/none: cannot be read",
        ),
    ] {
        let Output {
            status: ended,
            stderr,
            ..
        } = ended(&words);
        let line = String::from_utf8(stderr).unwrap();
        assert_eq!(ended.code(), Some(status), "{words:?}: {line}");
        assert!(
            line.contains(says) && line.lines().count() == 1 && !line.contains("tops3cret"),
            "{words:?}: {line}"
        );
    }
}

/// A certificate of 127.0.0.1, that of who signed it, and the key of the first one.
const CERTIFICATES: &str = include_str!("../../../tests/data/https.pem");

#[test]
fn tls_verifies_the_certificate_and_the_name_of_the_server() {
    let dir = TempDir::new().unwrap();
    let settings = [
        "ssl = on",
        "ssl_cert_file = 'certificates'",
        "ssl_key_file = 'key'",
    ];
    let (certificates, key) = CERTIFICATES
        .split_once("-----BEGIN PRIVATE KEY-----")
        .unwrap();
    let key = format!("-----BEGIN PRIVATE KEY-----{key}");
    let server = Postgres::start(&settings, &[("certificates", certificates), ("key", &key)]);
    let server = server.unwrap();
    let parts: Vec<_> = CERTIFICATES
        .split_inclusive("-----END CERTIFICATE-----\n")
        .collect();
    let (own, authority) = (
        secret(&dir, "own", parts[0]),
        secret(&dir, "authority", parts[1]),
    );
    // Of the same name, with another key.
    let other = secret(
        &dir,
        "other",
        include_str!("../../../tests/data/authority.pem"),
    );
    let nothing = secret(&dir, "nothing", "no PEM\n");
    let database = server.database().unwrap();
    let url = server.loopback_url(&database);
    let with =
        |url: &str, mode: &str, file: &str| format!("{url}?sslmode={mode}&sslrootcert={file}");
    let plain = SERVER.loopback_url(&SERVER.database().unwrap());
    for (url, says) in [
        (
            with(&url, "verify-full", &own),
            "invalid peer certificate: UnknownIssuer",
        ),
        (
            with(&url, "verify-full", &other),
            "invalid peer certificate: BadSignature",
        ),
        (
            with(
                &url.replace("127.0.0.1", "localhost"),
                "require",
                &authority,
            ),
            "not valid for name",
        ),
        (
            with(&url, "verify-full", &nothing),
            "nothing: no certificate, allowed: one or more in PEM",
        ),
        (
            with(&plain, "verify-full", &authority),
            "server does not support TLS",
        ),
    ] {
        let line = refused(&[&url], Some(PASSWORD));
        assert!(line.contains(says), "{line}");
    }
    let password = secret(&dir, "password", PASSWORD);
    let encrypted = |url: &str| {
        let running = TestServer::start(url.as_ref(), &["--store-password-file", &password]);
        assert_eq!(
            running.post("", &json(&report("n", Outcome::Pass, 20.0))).0 / 100,
            2
        );
        let sql = "SELECT ssl, count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE application_name = 'firstlight-collect' GROUP BY 1";
        server.sql("postgres", sql).unwrap()
    };
    assert_eq!(encrypted(&with(&url, "require", &authority)), "t|2\n");
    assert_eq!(
        encrypted(&format!("{url}?sslrootcert={authority}")),
        "t|2\n"
    );
    assert_eq!(encrypted(&format!("{url}?sslmode=disable")), "f|2\n");
}
