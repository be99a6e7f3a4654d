//! The machine: which core does what, what else runs, and what the machine is.

use std::{fs, io, mem, os::unix::ffi::OsStrExt as _, path::Path};

use crate::Result;

/// The broker's core.
pub const SERVER_CORE: usize = 0;
/// The load's core.
pub const LOAD_CORE: usize = 1;

/// Keeps this process, and threads and processes that it starts from now on, on one core.
///
/// # Errors
/// The core is not there or not allowed.
pub fn pin(core: usize) -> io::Result<()> {
    // SAFETY: an all-zero `cpu_set_t` is an empty set; the kernel reads it for the length of the call and no longer.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Processor time at one moment, in seconds.
#[derive(Clone, Copy)]
pub struct CpuTimes {
    /// In user code (the `user` and `nice` columns of `/proc/stat`), of everybody on all cores.
    everybody: f64,
    /// In user code, of the load and the broker.
    ours: f64,
    /// In user code and the kernel, of the broker.
    broker: f64,
}

/// What happened between two moments.
#[derive(Clone, Copy)]
pub struct CpuUse {
    /// Processor time of the broker, in seconds.
    pub broker: f64,
    /// Processor time in user code of others, in seconds. Ticks are coarse: a few hundredths mean nothing.
    pub others: f64,
}

impl CpuTimes {
    pub fn now(broker: u32) -> Result<Self> {
        let tick = 1.0 / clock_ticks_per_second();
        let stat = fs::read_to_string("/proc/stat")?;
        let columns = numbers(stat.lines().next().ok_or("/proc/stat is empty")?);
        let [user, nice] = [0, 1].map(|at| columns.get(at).copied().unwrap_or_default());
        let (load_user, _) = process_times("self")?;
        let (broker_user, broker_kernel) = process_times(&broker.to_string())?;
        Ok(Self {
            everybody: (user + nice) * tick,
            ours: (load_user + broker_user) * tick,
            broker: (broker_user + broker_kernel) * tick,
        })
    }

    pub fn until(self, later: Self) -> CpuUse {
        let ours = later.ours - self.ours;
        CpuUse {
            broker: later.broker - self.broker,
            others: (later.everybody - self.everybody - ours).max(0.0),
        }
    }
}

/// Ticks of a process in user code and in the kernel.
fn process_times(process: &str) -> Result<(f64, f64)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold spaces; the third field follows it.
    let fields = stat.rsplit_once(')').ok_or("a strange process")?.1;
    let fields = numbers(fields);
    match (fields.get(10), fields.get(11)) {
        (Some(user), Some(kernel)) => Ok((*user, *kernel)),
        _ => Err("a strange process".into()),
    }
}

/// The words after the first, as numbers.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split_ascii_whitespace().skip(1);
    words.map(|word| word.parse().unwrap_or(0.0)).collect()
}

fn clock_ticks_per_second() -> f64 {
    // SAFETY: it only reads a constant.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

/// The resident memory of a process, in bytes.
pub fn resident(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = field(&status, "VmRSS").and_then(|value| value.strip_suffix(" kB")?.parse().ok());
    Ok(kib.map(|kib: f64| kib * 1024.0).ok_or("no VmRSS")?)
}

/// What a reader of the numbers must know of the machine. `data` is where the broker keeps its data.
pub fn description(data: &Path) -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let kernel: Vec<_> = kernel.trim().split('.').take(2).collect();
    let memory = field(&memory, "MemTotal").and_then(|value| value.strip_suffix(" kB"));
    let memory: f64 = memory.and_then(|kib| kib.parse().ok()).unwrap_or_default();
    Ok(format!(
        "{} x {}, {:.0} GiB of memory, Linux {}, {}",
        cpus.matches("processor\t").count(),
        field(&cpus, "model name").unwrap_or("unknown processor"),
        memory / f64::from(1 << 20),
        kernel.join("."),
        file_system(data)?
    ))
}

/// The value of the first `name: value` in one of the kernel's tables.
fn field<'a>(table: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = table.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn file_system(data: &Path) -> Result<String> {
    let path = std::ffi::CString::new(data.as_os_str().as_bytes())?;
    // SAFETY: `statfs` is plain numbers, and the path ends with a zero byte.
    let kind = unsafe {
        let mut found: libc::statfs = mem::zeroed();
        if libc::statfs(path.as_ptr(), &raw mut found) != 0 {
            return Err(io::Error::last_os_error().into());
        }
        found.f_type
    };
    Ok(match kind {
        libc::EXT4_SUPER_MAGIC => "ext4".to_owned(),
        libc::XFS_SUPER_MAGIC => "xfs".to_owned(),
        libc::BTRFS_SUPER_MAGIC => "btrfs".to_owned(),
        libc::OVERLAYFS_SUPER_MAGIC => "overlayfs".to_owned(),
        libc::TMPFS_MAGIC => "tmpfs: NOT a disk, no number here means anything".to_owned(),
        other => format!("file system {other:#x}"),
    })
}
