//! Misbehaving partners, played by the shell.

use super::*;

fn partner(script: &str) -> Partner {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Partner::spawn(command).unwrap()
}

#[test]
fn a_silent_partner_is_killed_at_the_deadline() {
    let start = Instant::now();
    let mut silent = partner("exec sleep 60");
    let said = silent.ask::<u32>(&1, None, Duration::from_millis(50));
    assert!(matches!(said, Err(PartnerError::Silent(_))), "{said:?}");
    drop(silent);
    assert!(start.elapsed() < Duration::from_secs(50), "it is killed");
}

#[test]
fn a_dead_partner_is_reported_with_its_status() {
    let mut dead = partner("exit 3");
    let said = dead.ask::<u32>(&1, None, Duration::from_secs(5));
    assert!(
        matches!(&said, Err(PartnerError::Died(how)) if how.contains('3')),
        "{said:?}"
    );
}

#[test]
fn partners_with_messages_are_found_without_asking_each() {
    let partners = [
        partner("exec sleep 60"),
        partner("printf 7 >&0; exec sleep 60"),
    ];
    let due = Instant::now() + Duration::from_secs(10);
    let all: Vec<_> = partners.iter().collect();
    let mut said = vec![false; 2];
    while said == [false, false] && Instant::now() < due {
        said = ready(&all, Duration::from_secs(1)).unwrap();
    }
    assert_eq!(said, [false, true]);
    let [silent, mut loud] = partners;
    assert_eq!(loud.receive::<u32>(Duration::from_secs(1)).unwrap(), 7);
    for mut partner in [silent, loud] {
        partner.kill();
        assert!(partner.wait_exit(Duration::from_secs(5)).is_some());
    }
}
