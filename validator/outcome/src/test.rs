//! What other parts of the program must know of a test without running it: reports that were read from a file, the settings
//! for the workload, the marks of the boot. The suite adds how a test is run ([`Test`] there).

/// What a test sends between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Nothing: each GPU by itself, or no GPU.
    None,
    /// Copies, loads and stores by peer access.
    Peers,
    /// The same as the kernels of frameworks do it, which can be switched off apart from all other peer-to-peer.
    Frameworks,
    /// Collectives of NCCL.
    Nccl,
    /// Collectives of NCCL by NVLink SHARP, which can be switched off apart from all other peer-to-peer.
    Nvls,
}

/// The properties of a test.
#[derive(Debug, PartialEq, Eq)]
pub struct Properties {
    /// Short and stable; used by `--only` and the report.
    pub id: &'static str,
    /// What its pass rules out, in words.
    pub rules_out: &'static str,
    /// What it sends between GPUs. A test that sends something may take the machine down.
    pub traffic: Traffic,
    /// Whether it loads the GPUs as much as they can bear, which may take the machine down too.
    pub full_load: bool,
    /// Whether it shows that each GPU works by itself; all such tests run after a recovery.
    pub each_gpu: bool,
    /// Whether nothing is known about peer-to-peer without it.
    pub proves_peers: bool,
}

impl Properties {
    /// The properties of the test with that id; `None` if this program has no such test.
    #[must_use]
    pub fn of(id: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|test| test.id == id)
    }

    /// Whether it sends something between GPUs by peer access, without NCCL.
    #[must_use]
    pub const fn uses_peers(&self) -> bool {
        matches!(self.traffic, Traffic::Peers | Traffic::Frameworks)
    }

    const fn sending(self, traffic: Traffic) -> Self {
        Self { traffic, ..self }
    }

    const fn with_full_load(self) -> Self {
        Self {
            full_load: true,
            ..self
        }
    }

    const fn of_each_gpu(self) -> Self {
        Self {
            each_gpu: true,
            ..self
        }
    }

    const fn proving_peers(self) -> Self {
        Self {
            proves_peers: true,
            ..self
        }
    }
}

const fn test(id: &'static str, rules_out: &'static str) -> Properties {
    let traffic = Traffic::None;
    Properties {
        id,
        rules_out,
        traffic,
        full_load: false,
        each_gpu: false,
        proves_peers: false,
    }
}

macro_rules! tests {
    ($($name:ident = $row:expr;)*) => {
        $(
            /// The test of that name.
            pub const $name: Properties = $row;
        )*
        /// Every test.
        pub const ALL: &[&Properties] = &[$(&$name),*];
    };
}

tests! {
    FABRIC = test("fabric", "an unreadable or malformed PCI function");
    CMDLINE = test("cmdline", "a missing kernel word");
    IMAGE = test("image", "a changed image");
    IOMMU = test("iommu", "an IOMMU that translates for GPUs");
    CPUS = test("cpus", "missing processors");
    GPUS = test("gpus", "a missing GPU").of_each_gpu();
    DRIVERS = test("drivers", "another driver on a GPU");
    DRIVER = test("driver", "a driver of mixed versions").of_each_gpu();
    DRIVER_PARAMS = test("driver-params", "a parameter of the module");
    PATCH = test("patch", "a missing driver patch");
    NODES = test("nodes", "missing device nodes").of_each_gpu();
    BAR1 = test("bar1", "a small BAR1");
    BAR1_STATIC = test("bar1-static", "memory outside of BAR1");
    XID = test("xid", "Xid errors before the tests");
    ACS = test("acs", "ACS redirection");
    LINKS = test("links", "a narrow PCIe link at rest");
    NICS = test("nics", "a network port that is down");
    DISPLAY = test("display", "a display on a GPU");
    CUDA = test("cuda", "a GPU that CUDA cannot use").of_each_gpu();
    GDR = test("gdr", "missing GPUDirect RDMA");
    GPU_MEMORY = test("gpu-memory", "bad GPU memory").with_full_load();
    GPU_PRODUCTS = test("gpu-products", "wrong arithmetic of a GPU").with_full_load();
    GPU_POWER = test("gpu-power", "faults under full power").with_full_load();
    P2P_CAPABILITY = test("p2p-capability", "a refusal by the driver").sending(Traffic::Peers).proving_peers();
    P2P_INTEGRITY = test("p2p-integrity", "wrong data between GPUs").sending(Traffic::Peers).proving_peers();
    P2P_PROCESSES = test("p2p-processes", "wrong data between processes").sending(Traffic::Peers);
    P2P_REACH = test("p2p-reach", "wrong data at high addresses").sending(Traffic::Peers);
    P2P_ORDER = test("p2p-order", "flags that overtake data").sending(Traffic::Peers);
    P2P_ALLREDUCE = test("p2p-allreduce", "wrong all-reduces of frameworks").sending(Traffic::Frameworks);
    P2P_BANDWIDTH = test("p2p-bandwidth", "a slow pair of GPUs").sending(Traffic::Peers);
    P2P_LATENCY = test("p2p-latency", "slow small copies").sending(Traffic::Peers);
    HOST_BANDWIDTH = test("host-bandwidth", "slow host memory").of_each_gpu();
    P2P_TOGETHER = test("p2p-together", "a collapse under traffic of all pairs").sending(Traffic::Peers);
    P2P_SOAK = test("p2p-soak", "faults that need minutes").sending(Traffic::Peers);
    NCCL = test("nccl", "NCCL without peer-to-peer").sending(Traffic::Nccl);
    NCCL_ALLREDUCE = test("nccl-allreduce", "slow all-reduces").sending(Traffic::Nccl);
    NCCL_COLLECTIVE = test("nccl-collective", "wrong collectives").sending(Traffic::Nccl);
    NCCL_TYPES = test("nccl-types", "wrong element types").sending(Traffic::Nccl);
    NCCL_CALLS = test("nccl-calls", "wrong collectives of some forms").sending(Traffic::Nccl);
    NCCL_PROCESSES = test("nccl-processes", "NCCL failing between processes").sending(Traffic::Nccl);
    NCCL_NVLS = test("nccl-nvls", "wrong or hanging collectives by NVLink SHARP").sending(Traffic::Nvls);
    NCCL_CHANNELS = test("nccl-channels", "too few NCCL channels").sending(Traffic::Nccl);
}
