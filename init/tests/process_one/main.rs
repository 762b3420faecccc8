//! init as process 1 of a namespace: the stages, every way a validator can fail, policies, signals and both
//! hand-overs. QEMU tests elsewhere cover everything that needs a separate kernel.

#[cfg(test)]
mod boot;
#[cfg(test)]
mod config;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod hand_over;
#[cfg(test)]
mod namespace;
#[cfg(test)]
mod network;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod recover;
#[cfg(test)]
mod reset;

/// The configuration of most tests: no driver, no data partition, no watchdog, the workload as a child.
#[cfg(test)]
const CONFIG: &str = "[driver]\nload = false\n[report]\npartition = \"\"\n[console]\nserial = []\n[watchdog]\nmode = \"off\"\n\
                      [workload]\nmode = \"exec\"\nexec = [\"/workload\", \"a b\"]\nlock_modules = false\n\
                      [policy]\non_fail = \"poweroff\"\non_error = \"reboot\"\n";
