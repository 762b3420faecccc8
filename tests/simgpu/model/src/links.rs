//! The routes through the simulated machine: which links a transfer uses, its rate when alone, and the latency of a small
//! one.

use crate::flow::Flow;
use crate::scenario::{Engine, Fault, Kind, PairFigures, Scenario, Way};

/// Something that traffic shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Traffic out of a GPU.
    Out(usize),
    /// Traffic into a GPU.
    In(usize),
    /// Both directions of a GPU's link together.
    Link(usize),
    /// A shared link, away from its GPUs.
    Up(usize),
    /// A shared link, towards its GPUs.
    Down(usize),
    /// From one socket to another.
    Sockets(usize, usize),
    /// Two peers, both directions together: the lower GPU first, then whether kernels move the data, then whether they
    /// read.
    Pair(usize, usize, bool, bool),
    /// A GPU's part in copies through host memory.
    Staged(usize),
    /// A GPU's link to the host, both directions together.
    Host(usize),
    /// One socket's memory.
    Memory(usize),
    /// A GPU's own memory.
    Local(usize),
}

/// The route of one transfer.
#[derive(Debug, Clone)]
pub struct Route {
    /// Latency of a transfer without bytes, in ns.
    pub latency: f64,
    /// Its maximum rate and the links that it uses.
    pub flow: Flow<Link>,
    /// Source and target GPU of a direct peer-to-peer transfer.
    pub peers: Option<(usize, usize)>,
    /// What moves the data between two places.
    pub mover: Mover,
}

/// What moves the data of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mover {
    /// Directly between two GPUs.
    Peers(Engine, Way),
    /// Between a GPU and the host.
    Host,
    /// Within a GPU, or through host memory.
    Other,
}

impl Route {
    /// A route that shares no link with others.
    #[must_use]
    pub fn alone(latency: f64, max_rate: f64) -> Self {
        Self {
            latency,
            flow: Flow {
                max_rate,
                uses: Vec::new(),
            },
            peers: None,
            mover: Mover::Other,
        }
    }

    fn over(latency: f64, max_rate: f64, links: impl IntoIterator<Item = Link>) -> Self {
        let uses = links.into_iter().map(|link| (link, 1.0)).collect();
        Self {
            latency,
            flow: Flow { max_rate, uses },
            peers: None,
            mover: Mover::Other,
        }
    }
}

/// A microsecond in ns.
const US: f64 = 1000.0;

impl Scenario {
    /// The figures of a pair of peers.
    #[must_use]
    pub fn pair(&self, a: usize, b: usize) -> &PairFigures {
        let near = self.machine.socket(a) == self.machine.socket(b);
        if near {
            &self.figures.near
        } else {
            &self.figures.far
        }
    }

    /// The route directly from one GPU to another.
    #[must_use]
    pub fn direct(&self, from: usize, to: usize, engine: Engine, way: Way) -> Route {
        let pair = self.pair(from, to);
        let ways = if engine == Engine::Ce {
            pair.ce
        } else {
            pair.sm
        };
        let max_rate = if way == Way::Write {
            ways.write
        } else {
            ways.read
        }
        .of(from, to);
        let latency = if engine == Engine::Ce {
            pair.latency_us.of(from, to)
        } else {
            self.launch_us()
        };
        let read = way == Way::Read;
        let both = Link::Pair(from.min(to), from.max(to), engine == Engine::Sm, read);
        let links = [
            Link::Out(from),
            Link::Link(from),
            Link::In(to),
            Link::Link(to),
            both,
        ];
        let between = if self.machine.nvlink.is_some() {
            Vec::new()
        } else {
            self.between(from, to)
        };
        let route = Route::over(latency * US, max_rate, links.into_iter().chain(between));
        Route {
            peers: Some((from, to)),
            mover: Mover::Peers(engine, way),
            ..route
        }
    }

    /// Shared links and sockets between two GPUs.
    fn between(&self, from: usize, to: usize) -> Vec<Link> {
        let mut links = Vec::new();
        for (n, uplink) in self.figures.uplink.iter().enumerate() {
            match (uplink.gpus.contains(&from), uplink.gpus.contains(&to)) {
                (true, false) => links.push(Link::Up(n)),
                (false, true) => links.push(Link::Down(n)),
                _ => {}
            }
        }
        let sockets = (self.machine.socket(from), self.machine.socket(to));
        if sockets.0 != sockets.1 {
            links.push(Link::Sockets(sockets.0, sockets.1));
        }
        links
    }

    /// The route from one GPU to another through host memory.
    #[must_use]
    pub fn staged(&self, from: usize, to: usize) -> Route {
        let staged = &self.figures.staged;
        let ends = [Link::Out(from), Link::In(to)];
        let ends = if self.machine.nvlink.is_some() {
            Vec::new()
        } else {
            ends.to_vec()
        };
        let shared = [
            Link::Staged(from),
            Link::Staged(to),
            Link::Memory(self.machine.socket(from)),
        ];
        let latency = staged.latency_us.of(from, to) * US;
        let slow = |gpu| self.narrow_rate_left(gpu);
        let max_rate = staged.one.of(from, to) * slow(from).min(slow(to));
        Route::over(
            latency,
            max_rate,
            ends.into_iter().chain(shared).chain(self.between(from, to)),
        )
    }

    /// The route from the host to a GPU (`to`), or back.
    #[must_use]
    pub fn host(&self, gpu: usize, to: bool, engine: Engine) -> Route {
        let host = &self.figures.host;
        let max_rate = match engine {
            Engine::Sm => host.sm,
            Engine::Ce => {
                if to {
                    host.to
                } else {
                    host.from
                }
            }
        };
        let mut links = vec![Link::Host(gpu), Link::Memory(self.machine.socket(gpu))];
        if self.machine.nvlink.is_none() {
            links.extend([
                if to { Link::In(gpu) } else { Link::Out(gpu) },
                Link::Link(gpu),
            ]);
        }
        let shared = self
            .figures
            .uplink
            .iter()
            .enumerate()
            .filter(|(_, u)| u.gpus.contains(&gpu));
        links.extend(shared.map(|(n, _)| if to { Link::Down(n) } else { Link::Up(n) }));
        let latency = if engine == Engine::Ce {
            host.latency_us
        } else {
            self.launch_us()
        };
        let route = Route::over(latency * US, max_rate * self.narrow_rate_left(gpu), links);
        Route {
            mover: Mover::Host,
            ..route
        }
    }

    /// The route within a GPU's memory, where each byte is moved `passes` times (a copy reads and writes: 2).
    #[must_use]
    pub fn local(&self, gpu: usize, engine: Engine, passes: f64) -> Route {
        let latency = if engine == Engine::Ce {
            self.figures.local.latency_us.of(gpu, gpu)
        } else {
            self.launch_us()
        };
        let flow = Flow {
            max_rate: f64::INFINITY,
            uses: vec![(Link::Local(gpu), passes)],
        };
        Route {
            latency: latency * US,
            flow,
            peers: None,
            mover: Mover::Other,
        }
    }

    fn launch_us(&self) -> f64 {
        self.figures.local.launch_us
    }

    /// How many of a GPU's NVLinks are down.
    #[must_use]
    pub fn nvlinks_down(&self, gpu: usize) -> u32 {
        let here = |f: &&Fault| f.kind == Kind::NvlinkDown && f.gpu.is_none_or(|g| g == gpu);
        self.fault.iter().filter(here).map(|f| f.links).sum()
    }

    /// The fraction of a GPU's NVLink bandwidth that is left. With every NVLink down, data goes over its PCIe link.
    fn nvlink_rate_left(&self, gpu: usize) -> f64 {
        let Some(nvlink) = self.machine.nvlink else {
            return 1.0;
        };
        let here = |f: &&Fault| f.kind == Kind::NvlinkDown && f.gpu.is_none_or(|g| g == gpu);
        let rate: Option<f64> = self
            .fault
            .iter()
            .filter(here)
            .filter_map(|f| f.rate)
            .reduce(f64::min);
        let up = nvlink.links.saturating_sub(self.nvlinks_down(gpu));
        let pcie = self.figures.host.to / self.figures.link[0];
        rate.unwrap_or(if up > 0 {
            f64::from(up) / f64::from(nvlink.links.max(1))
        } else {
            pcie
        })
    }

    /// The fraction of a GPU's link bandwidth that `narrow` faults leave.
    #[must_use]
    pub fn narrow_rate_left(&self, gpu: usize) -> f64 {
        let narrow = self
            .fault
            .iter()
            .filter(|f| f.kind == Kind::Narrow && f.gpu == Some(gpu));
        narrow.filter_map(|f| f.rate).product()
    }

    /// What a link carries in GB/s.
    #[must_use]
    pub fn capacity(&self, link: Link) -> f64 {
        let [out, into, both] = self.figures.link;
        match link {
            Link::Out(gpu) => out * self.narrow_rate_left(gpu) * self.nvlink_rate_left(gpu),
            Link::In(gpu) => into * self.narrow_rate_left(gpu) * self.nvlink_rate_left(gpu),
            Link::Link(gpu) => both * self.narrow_rate_left(gpu) * self.nvlink_rate_left(gpu),
            Link::Up(n) | Link::Down(n) => {
                self.figures.uplink.get(n).map_or(f64::INFINITY, |u| u.rate)
            }
            Link::Sockets(..) => self.figures.socket_link,
            Link::Pair(a, b, sm, read) => {
                let pair = self.pair(a, b);
                let ways = if sm { pair.sm } else { pair.ce };
                if read {
                    ways.read_both
                } else {
                    ways.write_both
                }
                .of(a, b)
            }
            Link::Staged(gpu) => self.figures.staged.both.of(gpu, gpu),
            Link::Host(gpu) => self.figures.host.both * self.narrow_rate_left(gpu),
            Link::Memory(_) => self.figures.host.memory,
            Link::Local(gpu) => self.figures.local.copy.of(gpu, gpu),
        }
    }
}
