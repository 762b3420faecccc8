//! Small texts and tables that firmware, a disk, a server or a child process may have filled with anything. The first byte
//! selects the parser: a list of processors, the variables for a workload, a report to publish and the folder it is kept
//! in, the journal of the fabric pass, the mark of a reset, a recorded machine, the time, a worker's message, the answers
//! of NCCL's RAS.

use contract::mark::{Mark, SIZE};
use fabric::journal::Journal;
use firstlight::nccl::ranks::diagnosis;
use firstlight::net::publish::{FinishedReport, StorageOptions, UploadTarget, publish};
use firstlight::net::{http::Authorities, sntp};
use firstlight::suite::protocol::{Message, Request};
use firstlight_init::{environment, sys::terminal::printable};
use machine::host::madt;
use machine::recording::Recording;
use serde::{Serialize, de::DeserializeOwned};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The parsers by their first byte.
pub fn texts(bytes: &[u8]) {
    let Some((reader, bytes)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    match reader {
        b'a' => ras_answers(bytes),
        b'c' => assert!(madt::parse(bytes).is_none_or(|madt| madt.enabled <= bytes.len() / 8)),
        b'e' => variables(&text),
        b'f' => finished_report(bytes),
        b'j' => journal(&text),
        b'k' => report_folder(&text),
        b'm' => mark(bytes),
        b'r' => recording(&text),
        b't' => ntp_answer(bytes),
        b'w' => {
            assert_round_trip::<Message>(bytes);
            assert_round_trip::<Request>(bytes);
        }
        _ => {}
    }
}

/// Checks that a value is unchanged after being written and read again.
fn assert_round_trip<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(read) = serde_json::from_slice::<T>(bytes) {
        let written = serde_json::to_value(&read).expect("it can be written");
        let again: T = serde_json::from_value(written.clone()).expect("and read again");
        assert_eq!(serde_json::to_value(&again).expect("and written"), written);
    }
}

fn mark(bytes: &[u8]) {
    if let Ok(mark) = Mark::read(bytes) {
        let written = mark.text();
        assert_eq!((bytes.len(), written.len()), (SIZE, SIZE));
        assert_eq!(Mark::read(written.as_bytes()), Ok(mark));
        let words = |text: &str| {
            text.split_ascii_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(&written),
            words(&String::from_utf8_lossy(bytes)),
            "nothing is added or lost"
        );
    }
}

fn variables(text: &str) {
    // The lines as they arrive from a child process.
    let lines = |text: &str| {
        text.lines()
            .map(|line| printable(line.as_bytes()))
            .collect::<Vec<_>>()
    };
    let Ok(mut read) = environment::parse(&lines(text)) else {
        return;
    };
    let written = environment::lines(&read);
    assert_eq!(
        environment::lines(&environment::parse(&lines(&written)).expect("it is read again")),
        written
    );
    let once = environment::nccl_conf(text, &read);
    assert_eq!(
        environment::nccl_conf(&once, &read),
        once,
        "a second boot changes nothing"
    );
    environment::switch_p2p_off(&mut read, "the reason");
    let off: Vec<_> = read
        .iter()
        .filter(|v| v.name.starts_with("NCCL_P2P_"))
        .collect();
    assert!(matches!(off[..], [one] if one.name == "NCCL_P2P_DISABLE" && one.value == "1"));
}

fn finished_report(bytes: &[u8]) {
    if let Ok(finished) = FinishedReport::from_json(bytes.to_vec(), None) {
        assert!(
            finished.name.len() <= 64 && !finished.name.contains(['/', '\n', '\0']),
            "{}",
            finished.name
        );
        assert_eq!(finished.bytes, bytes);
    }
}

fn recording(text: &str) {
    if let Ok(read) = Recording::parse(text) {
        let written = read.to_string();
        // A folder with contents needs no line of its own.
        assert_eq!(
            Recording::parse(&written)
                .expect("it is read again")
                .to_string(),
            written
        );
    }
}

/// Creates an empty folder in memory.
fn scratch_folder() -> PathBuf {
    let folder = Path::new("/dev/shm").join(format!("firstlight-fuzz.{}", std::process::id()));
    let _none = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("there is room");
    folder
}

/// `ROOT` in the text is replaced by the root that it is read for.
fn journal(text: &str) {
    let folder = scratch_folder();
    let file = folder.join("journal");
    fs::write(&file, text.replace("ROOT", &folder.display().to_string())).expect("there is room");
    if let Ok(read) = Journal::load(&file, &folder) {
        let read = read.expect("the file is there");
        assert_eq!(read.root, folder.display().to_string(), "of another root");
        assert_round_trip::<Journal>(&serde_json::to_vec(&read).expect("it can be written"));
    }
    let _gone = fs::remove_dir_all(folder);
}

/// The lines are the names of files on a partition; a report is kept there, and waits to be sent.
fn report_folder(names: &str) {
    let root = scratch_folder();
    let usable = |name: &&str| {
        !name.is_empty()
            && !name.contains(['/', '\0'])
            && name.len() < 200
            && ![".", ".."].contains(name)
    };
    let names: Vec<_> = names.lines().filter(usable).take(20).collect();
    for folder in ["reports", "spool"] {
        fs::create_dir_all(root.join(folder)).expect("there is room");
        names
            .iter()
            .for_each(|name| fs::write(root.join(folder).join(name), name).expect("there is room"));
    }
    let report = include_bytes!("../../../validator/tests/data/published.json");
    let finished = FinishedReport::from_json(report.to_vec(), None).expect("it is a report");
    let offline = Some("no network".to_owned());
    let (url, timeout) = ("http://192.0.2.1/".to_owned(), Duration::from_secs(1));
    let at = UploadTarget {
        url,
        timeout,
        authorities: Authorities::default(),
        token: None,
        offline,
    };
    let storage = StorageOptions {
        keep: 2,
        spool: &root.join("none"),
        key: None,
    };
    let partition = root.display().to_string();
    publish(
        &finished,
        Some(&partition),
        Some(&at),
        storage,
        |published| assert!(!published.line.contains('\n'), "{}", published.line),
    );
    for folder in ["reports", "spool"] {
        let files: Vec<_> = fs::read_dir(root.join(folder))
            .expect("it is there")
            .flatten()
            .collect();
        let ours = files
            .iter()
            .filter(|file| fs::read(file.path()).is_ok_and(|bytes| bytes == report))
            .count();
        let foreign = |name: &&&str| !name.starts_with(|c: char| c.is_ascii_digit());
        let kept = |name: &str| files.iter().any(|file| file.file_name() == name);
        assert!(
            ours <= 1
                && names
                    .iter()
                    .filter(foreign)
                    .all(|name| kept(name) || name.starts_with(".")),
            "{files:?}"
        );
    }
    let _gone = fs::remove_dir_all(root);
}

/// NCCL's side of the RAS connection, whose answers to the three queries are the parts of the input.
fn ras_answers(bytes: &[u8]) {
    let server = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
    let at = server.local_addr().expect("it is bound");
    let answers: Vec<_> = bytes
        .splitn(3, |byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let serving = std::thread::spawn(move || {
        // One of several attempts is enough.
        let Ok((stream, _)) = server.accept() else {
            return;
        };
        drop(server);
        let mut questions = BufReader::new(&stream);
        for answer in answers {
            let mut question = String::new();
            let _gone = questions.read_line(&mut question);
            let _gone = (&stream).write_all(&[&answer, &b"\n"[..]].concat());
        }
    });
    let lines = diagnosis(at, Duration::from_secs(2));
    assert!(
        (1..=40).contains(&lines.len()) && lines.iter().all(|line| !line.contains('\n')),
        "{lines:?}"
    );
    serving.join().expect("it ends");
}

/// The last answer's bytes, and the server's address.
static NTP_ANSWER: Mutex<[u8; 48]> = Mutex::new([0; 48]);
static NTP_SERVER: OnceLock<String> = OnceLock::new();

/// An NTP server whose answers have valid headers; everything else is the input.
fn ntp_answer(bytes: &[u8]) {
    let server = NTP_SERVER.get_or_init(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback");
        let name = socket.local_addr().expect("it is bound").to_string();
        std::thread::spawn(move || {
            let mut asked = [0; 48];
            while let Ok((_, from)) = socket.recv_from(&mut asked) {
                let mut answer = *NTP_ANSWER.lock().expect("it is whole");
                answer[0] = answer[0] & 0xc0 | 0x24;
                answer[24..32].copy_from_slice(&asked[40..48]);
                let _lost = socket.send_to(&answer, from);
            }
        });
        name
    });
    let mut answer = [0; 48];
    answer
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    *NTP_ANSWER.lock().expect("it is whole") = answer;
    if let Ok((_, moved)) = sntp::query(std::slice::from_ref(server), Duration::from_secs(1)) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let then = if moved.forward {
            now.checked_add(moved.by)
        } else {
            now.checked_sub(moved.by)
        };
        let seconds = then.expect("a time").as_secs();
        assert!(
            (1_767_225_590..4_102_444_810).contains(&seconds),
            "{moved:?}"
        );
    }
}
