use super::*;

/// One process with four GPUs, NCCL 2.28.9 on four H200, strict: two channels of its 24.
fn strict() -> String {
    let mut log = String::from(
        "# nThread 1 nGpus 4 minBytes 8388608\n\
         vm:2306:2306 [0] NCCL INFO Bootstrap: Using eth0:192.0.2.2<0>\n\
         vm:2306:2306 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n\
         vm:2306:2306 [0] NCCL INFO Comm config nvlinkCentricSched set to 1\n\
         vm:2306:2328 [3] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n\
         vm:2306:2326 [1] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n\
         vm:2306:2327 [2] NCCL INFO NCCL_NET_DISABLE_INTRA set by environment to 1.\n\
         vm:2306:2327 [2] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.\n\
         vm:2306:2326 [1] NCCL INFO Trees [0] 2/-1/-1->1->0 [1] 2/-1/-1->1->0\n\
         vm:2306:2325 [0] NCCL INFO Channel 00/02 : 0 1 2 3\n\
         vm:2306:2325 [0] NCCL INFO Channel 01/02 :    0   1   2   3\n\
         vm:2306:2325 [0] NCCL INFO P2P Chunksize set to 524288\n",
    );
    for channel in 0..2 {
        for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
            log += &format!(
                "vm:2306:2340 [{from}] NCCL INFO Channel {channel:02}/0 : {from}[{from}] -> {to}[{to}] via P2P/direct pointer\n"
            );
        }
    }
    log + "     8388608       2097152     float     sum      -1    63.40  132.31  198.47       0\n"
}

fn link(text: &str) -> Link {
    let said = NcclLog::read(&format!("a-host:1:2 [0] NCCL INFO Channel {text}\n"));
    assert_eq!(said.unread, [""; 0], "{text}");
    said.links.first().cloned().unwrap()
}

#[test]
fn a_log_of_four_gpus_is_parsed() {
    let said = NcclLog::read(&strict());
    assert_eq!(said.version.as_deref(), Some("2.28.9+cuda13.0"));
    assert_eq!((said.channels(), said.links.len()), (Some(2), 8));
    assert_eq!(
        said.rings[1],
        ChannelRing {
            channel: 1,
            of: 2,
            order: Rank::list([0, 1, 2, 3])
        }
    );
    let settings: Vec<_> = said
        .settings
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let ours = [
        ("NCCL_NET_DISABLE_INTRA", "1"),
        ("NCCL_NVLS_ENABLE", "0"),
        ("NCCL_P2P_LEVEL", "SYS"),
    ];
    assert_eq!(settings, ours);
    let transports = said.transports();
    assert_eq!(transports.len(), 4);
    assert_eq!(
        transports[3],
        (3.into(), Rank::FIRST, vec![Transport::Direct])
    );
    assert!(said.warnings.is_empty() && said.unread.is_empty());
}

#[test]
fn the_channels_for_nvlink_sharp_are_read() {
    let line = |n: u32| {
        format!(
            "h:1:2 [0] NCCL INFO 24 coll channels, 0 collnet channels, {n} nvls channels, 32 p2p channels\n"
        )
    };
    assert_eq!(NcclLog::read(&strict()).nvls_channels, None);
    assert_eq!(
        NcclLog::read(&(line(0) + &line(16))).nvls_channels,
        Some(16)
    );
}

#[test]
fn every_known_transport_is_read_with_its_suffix() {
    let known = [
        (
            "00/0 : 0[0] -> 1[1] via P2P/direct pointer",
            Transport::Direct,
            "",
        ),
        (
            "00/0 : 0[0] -> 1[1] via P2P/direct pointer/read",
            Transport::Direct,
            "/read",
        ),
        ("00/0 : 0[0] -> 1[1] via P2P/CUMEM", Transport::Cumem, ""),
        (
            "00/1 : 0[0] -> 1[1] via P2P/CUMEM/read/CE",
            Transport::Cumem,
            "/read/CE",
        ),
        (
            "00/0 : 0[60] -> 1[c1000] via P2P/IPC/read",
            Transport::Ipc,
            "/read",
        ),
        ("00 : 0[60] -> 1[70] via P2P/IPC", Transport::Ipc, ""),
        (
            "00/0 : 0[0] -> 1[1] via P2P/indirect/2[90]/read",
            Transport::Indirect,
            "/2[90]/read",
        ),
        (
            "00/0 : 0[0] -> 1[1] via P2P/MNNVL/read",
            Transport::Mnnvl,
            "/read",
        ),
        (
            "00/0 : 0[0] -> 1[1] via SHM/direct/direct",
            Transport::Shm,
            "/direct/direct",
        ),
        (
            "00/0 : 0[0] -> 1[1] via SHM/direct",
            Transport::Shm,
            "/direct",
        ),
        (
            "00/0 : 0[0] -> 1[1] via SHM/CE/CE",
            Transport::Shm,
            "/CE/CE",
        ),
        (
            "00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
            Transport::Net,
            "/Socket/0",
        ),
        (
            "00/0 : 0[0] -> 1[1] [receive] via NET/IB/0(3)/GDRDMA(PCI)/Shared",
            Transport::Net,
            "/IB/0(3)/GDRDMA(PCI)/Shared",
        ),
        (
            "00/0 : 0[0] -> 1[1] via P2P/CUMEMORY",
            Transport::Other("P2P/CUMEMORY".to_owned()),
            "",
        ),
    ];
    for (text, via, suffix) in known {
        let link = link(text);
        assert_eq!(
            (link.channel, link.from, link.to),
            (0, Rank::FIRST, 1.into()),
            "{text}"
        );
        assert_eq!(
            (&link.transport, link.suffix.as_str()),
            (&via, suffix),
            "{text}"
        );
        assert!(text.ends_with(&link.text()), "{text}");
    }
    assert_eq!(
        link("07/0 : 2[2] -> 3[3] [send] via NET/IB/0").side,
        LinkSide::Send
    );
    assert_eq!(
        link("07/0 : 2[2] -> 3[3] [receive] via NET/IB/0").side,
        LinkSide::Receive
    );
    assert_eq!(
        link("07/0 : 2[2] -> 3[3] via SHM/direct").side,
        LinkSide::Both
    );
    let names = [
        Transport::Direct,
        Transport::Cumem,
        Transport::Ipc,
        Transport::Shm,
        Transport::Net,
    ]
    .map(|via| via.to_string());
    assert_eq!(
        names,
        ["P2P/direct pointer", "P2P/CUMEM", "P2P/IPC", "SHM", "NET"]
    );
}

#[test]
fn warnings_are_read_with_and_without_a_timestamp() {
    let said = NcclLog::read(
        "\n[2026-11-20 10:24:45] vm:2344:2377 [3] transport.cc:40 NCCL WARN No transport found for rank 3[90] -> rank 2[80]\n\
         vm:2344:2377 [3] NCCL INFO transport.cc:162 -> 2\n\
         vm:2344:2380 [0] transport.cc:40 NCCL WARN No transport found for rank 0 -> rank 3\n\
         [2026-11-20 10:24:45] vm:2344:2377 [3] transport.cc:40 NCCL WARN No transport found for rank 3[90] -> rank 2[80]\n\
         vm:2344:2380 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message\n",
    );
    assert_eq!(
        said.unconnected,
        [(3, 2), (0, 3)].map(|(a, b)| (Rank::new(a), Rank::new(b)))
    );
    assert_eq!(said.warnings.len(), 2);
    assert_eq!(said.p2p_disabled.len(), 1);
    assert!(said.links.is_empty());
}

#[test]
fn an_old_version_is_read_without_a_host_prefix() {
    assert_eq!(
        NcclLog::read("NCCL version 2.19.3+cuda12.3\n")
            .version
            .as_deref(),
        Some("2.19.3+cuda12.3")
    );
}

#[test]
fn settings_of_the_host_are_found_among_ours() {
    let said = NcclLog::read(
        "n1:1:1 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS\n\
         n1:1:1 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 4.\n\
         n1:1:1 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.\n\
         n1:1:1 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 4194304.\n\
         n1:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to lo\n\
         n1:1:1 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n",
    );
    let own = |n: &str, v: &str| (n.to_owned(), v.to_owned());
    let ours = [
        own("NCCL_P2P_LEVEL", "SYS"),
        own("NCCL_NVLS_ENABLE", "1"),
        own("NCCL_BUFFSIZE", "0x400000"),
        own("NCCL_SOCKET_IFNAME", "lo"),
    ];
    let foreign = [
        own("NCCL_IB_HCA", "mlx5_0"),
        own("NCCL_MAX_NCHANNELS", "4"),
        own("NCCL_NVLS_ENABLE", "0"),
    ];
    assert_eq!(said.foreign_settings(&ours), foreign);
    assert_eq!(NcclLog::default().foreign_settings(&ours), []);
}

#[test]
fn p2p_around_the_ring_is_proven() {
    let said = NcclLog::read(&strict());
    let text = "P2P/direct pointer between 4 of 12 ordered pairs, 2 channels";
    assert_eq!(
        said.proves(4, ExpectedTransport::P2p, Pairs::Ring),
        Proof::Proven(text.to_owned())
    );
}

#[test]
fn a_ring_proves_nothing_about_other_pairs() {
    let proof = NcclLog::read(&strict()).proves(4, ExpectedTransport::P2p, Pairs::All);
    assert_eq!(
        proof,
        Proof::Unproven("NCCL logged nothing about 0 -> 2 and 7 more".to_owned())
    );
}

#[test]
fn one_channel_over_host_memory_disproves_p2p() {
    let log = strict().replacen(
        "-> 2[2] via P2P/direct pointer",
        "-> 2[2] via SHM/direct/direct",
        1,
    );
    let proof = NcclLog::read(&log).proves(4, ExpectedTransport::P2p, Pairs::Ring);
    assert_eq!(
        proof,
        Proof::Disproven(vec!["1 -> 2 via SHM/direct/direct on 1 channel".to_owned()])
    );
}

#[test]
fn p2p_where_none_is_allowed_is_disproven() {
    let Proof::Disproven(lines) =
        NcclLog::read(&strict()).proves(4, ExpectedTransport::NoP2p, Pairs::Ring)
    else {
        panic!("P2P was taken for its absence");
    };
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0], "0 -> 1 via P2P/direct pointer on 2 channels");
}

#[test]
fn host_memory_is_proven_where_p2p_is_off() {
    let log = strict().replace("P2P/direct pointer", "SHM/direct/direct");
    let text = "SHM between 4 of 12 ordered pairs, 2 channels";
    assert_eq!(
        NcclLog::read(&log).proves(4, ExpectedTransport::NoP2p, Pairs::Ring),
        Proof::Proven(text.to_owned())
    );
}

#[test]
fn silence_is_never_a_proof() {
    let unproven = |log: &str, why: &str| {
        for expect in [ExpectedTransport::P2p, ExpectedTransport::NoP2p] {
            let proof = NcclLog::read(log).proves(4, expect, Pairs::Ring);
            assert!(
                matches!(&proof, Proof::Unproven(text) if text.contains(why)),
                "{why}: {proof:?}"
            );
        }
    };
    let quiet: String = strict()
        .lines()
        .filter(|l| !l.contains(" via "))
        .map(|l| format!("{l}\n"))
        .collect();
    unproven("", "no connection");
    unproven(&quiet, "no connection");
    unproven(
        &strict().replace("P2P/direct pointer", "XYZ"),
        "unknown transport",
    );
    let torn = format!(
        "{quiet}vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] vvm:1:2 [1] NCCL INFO x\n"
    );
    unproven(&torn, "unknown line");
}

#[test]
fn missing_lines_are_named() {
    let why = |log: &str| match NcclLog::read(log).proves(4, ExpectedTransport::P2p, Pairs::Ring) {
        Proof::Unproven(why) => why,
        other => panic!("{other:?}"),
    };
    let without = |part: &str| -> String {
        strict()
            .lines()
            .filter(|l| !l.contains(part))
            .map(|l| format!("{l}\n"))
            .collect()
    };
    assert_eq!(
        why(&without("Channel 01/0 : 3[3]")),
        "NCCL logged nothing about 3 -> 0 on channel 1"
    );
    assert_eq!(why(&without("/02 : ")), "NCCL logged no ring");
    assert_eq!(
        why(&strict().replace(": 0 1 2 3", ": 0 1 2 2")),
        "the ring of channel 0 is not one of 4 ranks"
    );
    let said = NcclLog::read(&strict());
    assert!(matches!(
        said.proves(1, ExpectedTransport::P2p, Pairs::Ring),
        Proof::Unproven(_)
    ));
    assert!(matches!(
        said.proves(3, ExpectedTransport::P2p, Pairs::All),
        Proof::Unproven(_)
    ));
}

#[test]
fn no_transport_and_a_driver_that_disallows_disprove() {
    let warned =
        strict() + "vm:1:1 [0] x.cc:40 NCCL WARN No transport found for rank 3[90] -> rank 2[80]\n";
    let lines = Proof::Disproven(vec!["no transport between ranks 3 and 2".to_owned()]);
    assert_eq!(
        NcclLog::read(&warned).proves(4, ExpectedTransport::P2p, Pairs::Ring),
        lines
    );
    let disabled =
        strict() + "vm:1:1 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0.\n";
    let proof = NcclLog::read(&disabled).proves(4, ExpectedTransport::P2p, Pairs::Ring);
    assert_eq!(
        proof,
        Proof::Disproven(vec![
            "P2P is disabled between connected GPUs 1 and 0.".to_owned()
        ])
    );
}

#[test]
fn over_a_network_both_halves_must_be_logged() {
    let half = |from: usize, to: usize, half: &str| {
        format!(
            "vm:1:1 [0] NCCL INFO Channel 00/0 : {from}[0] -> {to}[1] [{half}] via NET/Socket/0\n"
        )
    };
    let ring = "vm:1:1 [0] NCCL INFO Channel 00/01 : 0 1\n".to_owned();
    let sent = ring + &half(0, 1, "send") + &half(1, 0, "send") + &half(0, 1, "receive");
    let proof = NcclLog::read(&sent).proves(2, ExpectedTransport::NoP2p, Pairs::Ring);
    assert_eq!(
        proof,
        Proof::Unproven("NCCL logged nothing about 1 -> 0 on channel 0".to_owned())
    );
    let whole = sent + &half(1, 0, "receive");
    let text = "NET between 2 of 2 ordered pairs, 1 channel";
    assert_eq!(
        NcclLog::read(&whole).proves(2, ExpectedTransport::NoP2p, Pairs::All),
        Proof::Proven(text.to_owned())
    );
}
