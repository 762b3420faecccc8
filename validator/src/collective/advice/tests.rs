use super::*;

#[test]
fn the_level_is_the_farthest_proven_pair_by_a_name_that_nccl_knows() {
    let value = |d| level(d).map(|a| a.value);
    for known in [Distance::Nvl, Distance::Pix, Distance::Pxb, Distance::Phb, Distance::Sys] {
        assert_eq!(value(known).as_deref(), Some(known.name()));
    }
    assert_eq!(value(Distance::Node).as_deref(), Some("SYS"));
    assert_eq!(value(Distance::Dis), None);
    let farthest = [Distance::Nvl, Distance::Phb, Distance::Pix].into_iter().max();
    assert_eq!(farthest, Some(Distance::Phb));
}

#[test]
fn channels_are_set_where_they_gain_more_than_5_percent() {
    let with = |best, usual, gain| channels(&Channels { best, usual, gain }).map(|a| (a.name, a.value));
    assert_eq!(with(8, 2, 1.12), Some(("NCCL_MIN_NCHANNELS".to_owned(), "8".to_owned())));
    assert_eq!(with(2, 8, 1.12), Some(("NCCL_MAX_NCHANNELS".to_owned(), "2".to_owned())));
    for useless in [with(8, 2, 1.05), with(8, 2, f64::NAN), with(4, 4, 2.0), with(0, 4, 2.0)] {
        assert_eq!(useless, None);
    }
}

#[test]
fn interfaces_are_named_exactly() {
    let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    assert_eq!(interfaces(&names(&["enp1s0f0np0", "bad,name", "", "eth0.7"])).value, "=enp1s0f0np0,eth0.7");
    assert_eq!(interfaces(&[]).value, "=lo");
}

#[test]
fn reasons_are_one_line_without_an_equals_sign() {
    assert_eq!(Advice::new("NCCL_X", "1", "a=b\nc ").reason, "a:b c");
    assert_eq!((nvls(false).value.as_str(), nvls(true).value.as_str()), ("0", "1"));
}
