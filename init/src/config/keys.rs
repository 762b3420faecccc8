//! The keys of init's sections: a key's name, type, default, allowed values, layers and its sentence on the page of settings are
//! one entry here, and nowhere else. The types of values are in `types`, what their texts mean in `values`, and values that are
//! invalid only in combination are found in `combined`.

use super::remote::{self, RemoteSource};
use super::signature;
use super::types::{
    Action, AddressMode, BootSource, CardSelector, DeviceSpec, HandoverMode, NetworkMode, OnExit,
    Recover, RootSource, Screen, ScreenView, Serial, TimeSource, WatchdogMode, WorkloadMode,
};
use super::values;
use contract::config_format::AllowedLayers;
use contract::config_format::layers::Sections;
use contract::config_format::table::Section;
use contract::config_format::value::{
    Entries, Flag, List, Perhaps, Seconds, Text, TextOrNone, Whole, Words,
};
use contract::section;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const ABSOLUTE_FILE: &str = "an absolute path to a file of 32 to 4096 bytes";

/// init's sections.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// `[config]`
    pub trust: Trust,
    /// `[driver]`
    pub driver: Driver,
    /// `[network]`
    pub network: Network,
    /// `[policy]`
    pub policy: Policy,
    /// `[workload]`
    pub workload: Workload,
    /// `[report]`
    pub report: Report,
    /// `[console]`
    pub console: Console,
    /// `[watchdog]`
    pub watchdog: Watchdog,
    /// The kernel words that are in no section.
    pub words: KernelWords,
}

impl Sections for Settings {
    fn all(&mut self) -> Vec<&mut dyn Section> {
        vec![
            &mut self.trust,
            &mut self.driver,
            &mut self.network,
            &mut self.policy,
            &mut self.workload,
            &mut self.report,
            &mut self.console,
            &mut self.watchdog,
            &mut self.words,
        ]
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

section! {
    /// which configuration files count
    [derive(Eq)]
    pub struct Trust = "config";

    /// a minisign public key: files of a disk or a server need a signature
    key: Option<String> = None,
        TextOrNone(signature::key, "a minisign public key: 56 characters, the first RW"),
        layers(AllowedLayers::Image);
    /// true: the data partition wins over the server
    disk_overrides_server: bool = false, Flag, layers(AllowedLayers::ImageOrServer);
}

section! {
    /// the GPU driver's modules
    [derive(Eq)]
    pub struct Driver = "driver";

    /// false: no module is loaded; default: true if the image has a driver
    load: Option<bool> = None, Perhaps(Flag), example("true");
    /// in this order, dependencies first
    modules: Vec<String> = vec!["nvidia".to_owned(), "nvidia-uvm".to_owned()],
        List::new(values::modules, "an array of module names"),
        example("[\"nvidia\", \"nvidia-uvm\"]");
    /// added to the image's parameters for the GPU's family, or replacing them; default: none
    parameters: BTreeMap<String, String> = BTreeMap::new(),
        Entries("a table of module = \"parameters\""),
        entries(true),
        example("{ nvidia = \"NVreg_EnableStreamMemOPs=1\" }");
    /// plus 15 seconds for each GPU
    timeout_s: Duration = seconds(300), Seconds(1, 86_400);
}

section! {
    /// init's own network, for the report and the workload; loopback is always up
    [derive(Eq)]
    pub struct Network = "network";

    /// default: dhcp if another setting needs the network, else none
    mode: Option<AddressMode> = None, Perhaps(Words(AddressMode::WORDS)), example("\"none\"");
    /// default: the kernel word hostname=, else firstlight
    hostname: String = String::new(),
        Text::new(values::hostname_or_none, "1 to 64 of a-z A-Z 0-9 . -"),
        example("\"node7\"");
    /// a name or an Ethernet address; default: BOOTIF=, else the first card with a carrier
    interface: CardSelector = CardSelector::Any,
        Text::new(values::card_or_any, "a name of at most 15 characters, or aa:bb:cc:dd:ee:ff"),
        example("\"\"");
    /// for static; default: none
    address: Option<(IpAddr, u8)> = None,
        TextOrNone(values::address, "ADDRESS/PREFIX, e.g. 10.0.0.2/24"),
        example("\"10.0.0.7/24\"");
    /// for static; default: none
    gateway: Option<IpAddr> = None,
        TextOrNone(|text| text.parse().ok(), "an address of the same family as network.address"),
        example("\"10.0.0.1\"");
    /// for link-local: names or Ethernet addresses; [] means every Ethernet card with a carrier
    ports: Vec<CardSelector> = Vec::new(),
        List::new(values::cards, "an array of names of at most 15 characters, or aa:bb:cc:dd:ee:ff");
    /// true: a soft-RoCE device on each port of link-local, or on the interface of dhcp and static
    soft_roce: bool = false, Flag;
    /// instead of the servers that DHCP names
    dns: Vec<IpAddr> = Vec::new(),
        List::new(|items| items.iter().map(|text| text.parse().ok()).collect(), "an array of addresses");
    /// PEM file; only these certificates are trusted for https
    ca: Option<String> = None, TextOrNone(values::absolute, "an absolute path to certificates in PEM form");
    /// for carrier and address together
    timeout_s: Duration = seconds(30), Seconds(1, 86_400);
    /// NTP servers, HOST or HOST:PORT; or "dhcp" for the servers that DHCP names
    time: Vec<TimeSource> = Vec::new(), List::new(values::time_sources, "an array of HOST, HOST:PORT or dhcp");

    derived:
    /// How the interface gets its address.
    connection: NetworkMode = NetworkMode::None;
    /// Whether the modules of RDMA cards are loaded: in mode `link-local`, with `soft_roce`, and if `[nodes]` has a key.
    rdma: bool = false;
}

section! {
    /// what follows each verdict
    [derive(Copy, Eq)]
    pub struct Policy = "policy";

    /// true: shell may be chosen below
    allow_shell: bool = false, Flag, layers(AllowedLayers::Image);
    /// shell needs allow_shell
    on_pass: Action = Action::Workload, Words(Action::WORDS);
    /// shell needs allow_shell
    on_degraded: Action = Action::Workload, Words(Action::WORDS);
    /// shell needs allow_shell
    on_fail: Action = Action::Hold, Words(Action::WORDS);
    /// shell needs allow_shell; also after a fault in init itself
    on_error: Action = Action::Hold, Words(Action::WORDS);
    /// gpu: unload the driver and reset GPUs that no longer work, reboot: and reboot once
    recover: Recover = Recover::Off, Words(Recover::WORDS);
    /// after so many reboots in a row the machine holds instead (see A machine that reboots)
    max_reboots: u64 = 3, Whole(1, 1000);
}

section! {
    /// the program or system that the machine is handed over to
    [derive(Eq)]
    pub struct Workload = "workload";

    /// exec: init supervises it; default: none
    mode: HandoverMode = HandoverMode::None, Words(HandoverMode::WORDS), example("\"exec\"");
    /// for exec: program and words; for switch-root: the new system's first program; default: its init
    exec: Vec<String> = Vec::new(),
        List::new(values::program, "an array whose first word is an absolute path"),
        example("[\"/usr/lib/firstlight/demo\"]");
    /// for switch-root: LABEL= UUID= /dev/.. with a file on it after a colon, or http://server/root.squashfs#sha256=HEX (https too); default: none
    root: Option<RootSource> = None,
        TextOrNone(values::root_source, values::ROOT),
        example("\"LABEL=data:/root.squashfs\"");
    /// when a workload ends that init supervises
    on_exit: OnExit = OnExit::PowerOff, Words(OnExit::WORDS);
    /// no module and no other kernel can be loaded after the hand-over; default: true for exec, false for switch-root
    lock_modules: bool = false, Flag, example("true");
    /// whether user namespaces can be made after the hand-over; default: false for exec, true for switch-root
    user_namespaces: bool = false, Flag, example("false");
    /// true: the workload gets the running watchdog and must pet it
    watchdog: bool = false, Flag;

    derived:
    /// How the machine is handed over.
    handover: WorkloadMode = WorkloadMode::None;
}

section! {
    /// where the report is kept besides /run/firstlight
    [derive(Eq)]
    pub struct Report = "report";

    /// LABEL= UUID= /dev/..; vfat or ext4; "" for none
    partition: Option<DeviceSpec> = Some(DeviceSpec::default_partition()),
        TextOrNone(values::device_spec, "LABEL=.., UUID=.., /dev/.., or \"\" for none"),
        example("\"LABEL=FIRSTLIGHT\"");
    /// true: wait 10 seconds for the partition, and stop if it is absent; default: whether a layer names it
    required: bool = false, Flag;
    /// http or https: the report is sent there by POST
    url: Option<String> = None, TextOrNone(values::url, "http://HOST/.., https://HOST/.., or \"\" for none");
    /// for all attempts
    timeout_s: Duration = seconds(60), Seconds(1, 3600);
    /// reports on the partition, and reports that wait to be sent
    keep: u64 = 20, Whole(1, 1000);
    /// absolute path; each report gets a MAC with the key in this file (see Reports)
    key_file: Option<String> = None,
        TextOrNone(values::absolute, ABSOLUTE_FILE),
        layers(AllowedLayers::NotPartition);
    // Otherwise a partition could have any file of the image sent to a server of its choice.
    /// absolute path; the token that the server at url demands (see Collecting reports)
    token_file: Option<String> = None,
        TextOrNone(values::absolute, "an absolute path to a file with one line"),
        layers(AllowedLayers::NotPartition);

    derived:
    /// Whether the partition may be on any disk: only when a file of the image or a kernel word names it. Otherwise it is
    /// used only on a removable disk, on USB, or on the disk that the machine was booted from.
    any_disk: bool = false;
    /// Whether the partition had a configuration layer.
    config_read: bool = false;
    /// What was already logged about partitions of that name that may not be used, one line for each.
    ignored: Vec<String> = Vec::new();
}

section! {
    /// where lines are written besides /dev/console
    [derive(Eq)]
    pub struct Console = "console";

    /// NAME or NAME,RATE
    serial: Vec<Serial> = vec![Serial::default_line()],
        List::new(values::serial_lines, "an array of NAME or NAME,RATE, e.g. ttyS0,115200"),
        example("[\"ttyS0,115200\"]");
    /// whether a framebuffer may stay on an NVIDIA GPU
    screen: Screen = Screen::Auto, Words(Screen::WORDS);
    /// what the machine's own screen shows (see Using the image, The screen)
    view: ScreenView = ScreenView::Auto, Words(ScreenView::WORDS);

    derived:
    /// Whether a layer names serial lines; a named line that is absent is a warning.
    serial_named: bool = false;
    /// Where the machine was booted from.
    booted_from: BootSource = BootSource::Stick;
}

section! {
    /// what resets a machine whose process 1 has hung
    [derive(Copy, Eq)]
    pub struct Watchdog = "watchdog";

    /// auto: the machine's own, else in software
    mode: WatchdogMode = WatchdogMode::Auto, Words(WatchdogMode::WORDS);
    // From 10 seconds, because process 1 needs some of them to end a child; to 600, because iTCO_wdt measures 613.
    /// the machine resets when process 1 has made no progress for this time
    timeout_s: Duration = seconds(60), Seconds(10, 600);
}

section! {
    /// kernel words that are in no section: about this boot of this machine
    [derive(Eq)]
    pub struct KernelWords = "";

    /// where the machine was booted from; default: network if there is a word BOOTIF= or ip=, else stick
    booted_from: Option<BootSource> = None, Perhaps(Words(BootSource::WORDS)), example("\"stick\"");
    /// the mark of an earlier boot is removed; default: it is not
    reset: bool = false, Words(&[("clear", true)]), example("\"clear\"");
    /// a file with settings on a server, or a folder of them; default: none
    config: Option<RemoteSource> = None,
        Perhaps(Text::new(RemoteSource::parse, remote::ALLOWED)),
        example("\"http://server/node.toml#sha256=0000000000000000000000000000000000000000000000000000000000000000\"");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_init_has_its_table_and_no_other_is_here() {
        let mut settings = Settings::default();
        let mut names: Vec<_> = settings
            .all()
            .iter()
            .map(|section| section.name())
            .collect();
        assert_eq!(names.pop(), Some(""));
        assert_eq!(names, section::INIT);
    }

    #[test]
    fn the_page_of_settings_has_every_key_with_its_default_and_what_it_allows() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md"))
                .unwrap();
        let sections = [
            Trust::page(),
            Driver::page(),
            Network::page(),
            Policy::page(),
            Workload::page(),
            Report::page(),
            Console::page(),
            Watchdog::page(),
        ];
        let wrong: Vec<_> = sections
            .iter()
            .filter_map(|section| section.compare(&page).err())
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(KernelWords::page().faults, Vec::<String>::new());
        let block = page
            .split("```toml\n")
            .nth(1)
            .and_then(|rest| rest.split("\n```").next())
            .unwrap();
        let mut named: Vec<_> = block
            .lines()
            .filter_map(|line| line.strip_prefix('[')?.split(']').next())
            .collect();
        let mut all = [section::INIT, &section::VALIDATOR].concat();
        named.sort_unstable();
        all.sort_unstable();
        assert_eq!(named, all);
    }
}
