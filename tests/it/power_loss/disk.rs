//! What a disk holds: what is certain to be there after a loss of power, and what may be.
//!
//! A change of a file is certain once a flush of that file, begun after it, succeeded; a name once its folder was flushed. A flush
//! that fails drops what it was to write, as Linux does: a later flush of the same file will not write it. Names become certain in
//! order within a folder, as on a journalling file system; pieces of files in any order.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use super::journal::Entry;
use crate::torture::rng::Rng;

/// The unit in which unsynced writes survive or do not.
const BLOCK: usize = 4096;

/// Which of the changes that are not certain survive.
pub enum Keep<'a> {
    /// None.
    Nothing,
    /// Some, by chance.
    Some(&'a mut Rng),
    /// All: what a killed process leaves.
    Everything,
}

/// A file or a folder, by the model's own number: inodes are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Folder(usize),
}

/// A change, with its place in the order of all.
type Pending<T> = Vec<(u64, T)>;

#[derive(Debug, Default)]
struct File {
    certain: Vec<u8>,
    pending: Pending<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write {
        at: usize,
        data: Vec<u8>,
    },
    Truncate {
        length: usize,
    },
    /// Dropped by a flush that failed: still seen by whoever reads, never on the disk.
    Dropped(Box<Change>),
}

#[derive(Debug, Default)]
struct Folder {
    certain: BTreeMap<String, Node>,
    pending: Pending<Naming>,
    /// As the process sees it.
    now: BTreeMap<String, Node>,
}

#[derive(Clone, Debug)]
enum Naming {
    Link(String, Node),
    Unlink(String),
    Rename(String, String, Node),
}

/// A disk, beneath one folder.
pub struct Disk {
    files: Vec<File>,
    folders: Vec<Folder>,
    inodes: HashMap<u64, Node>,
    /// Flushes under way, and where they began.
    flushes: HashMap<u64, u64>,
    order: u64,
}

impl Disk {
    /// A disk on which everything that lies beneath `root` is certain.
    pub fn new(root: &Path) -> Self {
        let mut disk = Self {
            files: Vec::new(),
            folders: Vec::new(),
            inodes: HashMap::new(),
            flushes: HashMap::new(),
            order: 0,
        };
        disk.load(root);
        disk
    }

    fn load(&mut self, path: &Path) -> Node {
        let metadata = fs::metadata(path).expect("it exists");
        let node = if metadata.is_dir() {
            let number = self.folders.len();
            self.folders.push(Folder::default());
            for entry in fs::read_dir(path).expect("the folder can be read") {
                let entry = entry.expect("the folder can be read");
                let node = self.load(&entry.path());
                let name = entry.file_name().into_string().expect("UTF-8");
                self.folders[number].certain.insert(name.clone(), node);
                self.folders[number].now.insert(name, node);
            }
            Node::Folder(number)
        } else {
            self.files.push(File {
                certain: fs::read(path).expect("the file can be read"),
                pending: Vec::new(),
            });
            Node::File(self.files.len() - 1)
        };
        self.inodes.insert(metadata.ino(), node);
        node
    }

    /// Lets everything happen that one process wrote down.
    pub fn replay(&mut self, entries: &[Entry]) {
        // Those that a killed process had begun do not end.
        self.flushes.clear();
        for entry in entries {
            self.order += 1;
            self.step(entry);
        }
    }

    fn step(&mut self, entry: &Entry) {
        match entry {
            Entry::Create { inode, path } => {
                self.files.push(File::default());
                self.link(path, *inode, Node::File(self.files.len() - 1));
            }
            Entry::MakeDir { inode, path } => {
                self.folders.push(Folder::default());
                self.link(path, *inode, Node::Folder(self.folders.len() - 1));
            }
            Entry::Write { inode, at, data } => {
                let data = data.clone();
                self.change(*inode, Change::Write { at: *at, data });
            }
            Entry::Truncate { inode, length } => {
                self.change(*inode, Change::Truncate { length: *length });
            }
            Entry::Unlink { path } => {
                let order = self.order;
                let (folder, name) = self.place(path);
                folder.now.remove(&name);
                folder.pending.push((order, Naming::Unlink(name)));
            }
            Entry::Rename { from, to } => self.rename(from, to),
            Entry::FlushBegin { number, .. } => {
                self.flushes.insert(*number, self.order);
            }
            Entry::FlushEnd { inode, number } => self.flushed(*inode, *number),
            Entry::FlushFailed { inode, number } => self.dropped(*inode, *number),
        }
    }

    fn link(&mut self, path: &str, inode: u64, node: Node) {
        let order = self.order;
        self.inodes.insert(inode, node);
        let (folder, name) = self.place(path);
        folder.now.insert(name.clone(), node);
        folder.pending.push((order, Naming::Link(name, node)));
    }

    fn rename(&mut self, from: &str, to: &str) {
        let parent = |path: &str| path.rsplit_once('/').map(|(p, _)| p.to_owned());
        assert_eq!(
            parent(from),
            parent(to),
            "moved to another folder: not modelled"
        );
        let order = self.order;
        let to = to.rsplit('/').next().expect("a path has a name").to_owned();
        let (folder, from) = self.place(from);
        let node = folder.now.remove(&from).expect("what is renamed is there");
        folder.now.insert(to.clone(), node);
        folder.pending.push((order, Naming::Rename(from, to, node)));
    }

    fn change(&mut self, inode: u64, change: Change) {
        let order = self.order;
        self.file(inode).pending.push((order, change));
    }

    fn file(&mut self, inode: u64) -> &mut File {
        match self.inodes.get(&inode) {
            Some(Node::File(number)) => &mut self.files[*number],
            other => panic!("inode {inode} is not a file: {other:?}"),
        }
    }

    /// The folder that holds `path` now, and its name there.
    fn place(&mut self, path: &str) -> (&mut Folder, String) {
        let mut parts: Vec<_> = path.split('/').collect();
        let name = parts.pop().expect("a path has a name").to_owned();
        let mut at = 0;
        for part in parts {
            at = match self.folders[at].now.get(part) {
                Some(Node::Folder(number)) => *number,
                other => panic!("{part} of {path} is not a folder: {other:?}"),
            };
        }
        (&mut self.folders[at], name)
    }

    /// What was there when the flush began is certain.
    fn flushed(&mut self, inode: u64, number: u64) {
        let began = self.flushes.remove(&number).expect("it began");
        match self.inodes.get(&inode) {
            Some(Node::File(number)) => {
                let file = &mut self.files[*number];
                for (_, change) in take_before(&mut file.pending, began) {
                    if !matches!(change, Change::Dropped(_)) {
                        change.make(&mut file.certain);
                    }
                }
            }
            Some(Node::Folder(number)) => {
                let folder = &mut self.folders[*number];
                for (_, naming) in take_before(&mut folder.pending, began) {
                    naming.make(&mut folder.certain);
                }
            }
            None => panic!("a flush of the unknown inode {inode}"),
        }
    }

    /// What was there when the flush began will never be written.
    fn dropped(&mut self, inode: u64, number: u64) {
        let began = self.flushes.remove(&number).expect("it began");
        if let Some(Node::Folder(_)) = self.inodes.get(&inode) {
            // A name is tried again with the next flush of its folder.
            return;
        }
        for (order, change) in &mut self.file(inode).pending {
            if *order < began && !matches!(change, Change::Dropped(_)) {
                *change = Change::Dropped(Box::new(change.clone()));
            }
        }
    }

    /// What is on the disk afterwards: each file's path and bytes, and each folder's path.
    pub fn image(&self, mut keep: Keep<'_>) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut image = BTreeMap::new();
        self.folder_image(0, "", &mut keep, &mut image);
        image
    }

    fn folder_image(
        &self,
        number: usize,
        path: &str,
        keep: &mut Keep<'_>,
        image: &mut BTreeMap<String, Option<Vec<u8>>>,
    ) {
        let folder = &self.folders[number];
        let mut names = folder.certain.clone();
        let kept = match keep {
            Keep::Nothing => 0,
            Keep::Some(rng) => rng.index(folder.pending.len() + 1),
            Keep::Everything => folder.pending.len(),
        };
        for (_, naming) in &folder.pending[..kept] {
            naming.make(&mut names);
        }
        for (name, node) in names {
            let path = format!("{path}/{name}");
            match node {
                Node::Folder(number) => {
                    image.insert(path.clone(), None);
                    self.folder_image(number, &path, keep, image);
                }
                // The index of the log is a map in memory; SQLite makes it anew.
                Node::File(_) if path.ends_with("-shm") => {}
                Node::File(number) => {
                    let bytes = self.files[number].image(keep);
                    image.insert(path, Some(bytes));
                }
            }
        }
    }
}

impl File {
    fn image(&self, keep: &mut Keep<'_>) -> Vec<u8> {
        let mut bytes = self.certain.clone();
        for (_, change) in &self.pending {
            match (change, &mut *keep) {
                (_, Keep::Nothing) => {}
                (Change::Dropped(change), Keep::Everything) => change.make(&mut bytes),
                (change, Keep::Everything) => change.make(&mut bytes),
                (Change::Dropped(_), Keep::Some(_)) => {}
                (Change::Truncate { .. }, Keep::Some(rng)) => {
                    if rng.chance(50) {
                        change.make(&mut bytes);
                    }
                }
                (Change::Write { at, data }, Keep::Some(rng)) => {
                    for (at, data) in blocks(*at, data) {
                        if rng.chance(50) {
                            write(&mut bytes, at, data);
                        }
                    }
                }
            }
        }
        bytes
    }
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { at, data } => write(bytes, *at, data),
            Self::Truncate { length } => bytes.resize(*length, 0),
            Self::Dropped(change) => change.make(bytes),
        }
    }
}

impl Naming {
    fn make(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Link(name, node) => drop(names.insert(name.clone(), *node)),
            Self::Unlink(name) => drop(names.remove(name)),
            Self::Rename(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

fn take_before<T>(pending: &mut Pending<T>, began: u64) -> Pending<T> {
    let later = pending.partition_point(|(order, _)| *order < began);
    pending.drain(..later).collect()
}

fn write(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    if bytes.len() < at + data.len() {
        bytes.resize(at + data.len(), 0);
    }
    bytes[at..at + data.len()].copy_from_slice(data);
}

/// The parts of a write that lie in different blocks.
fn blocks(at: usize, data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let start = at + done;
        let end = data.len().min(done + BLOCK - start % BLOCK);
        let block = (done < end).then(|| (start, &data[done..end]));
        done = end;
        block
    })
}

/// Puts an image in the place of what is there.
pub fn put_back(root: &Path, image: &BTreeMap<String, Option<Vec<u8>>>) {
    fs::remove_dir_all(root).expect("the broker is dead");
    fs::create_dir(root).expect("a folder can be made");
    // Folders come before what they hold: they sort so.
    for (path, bytes) in image {
        let path = root.join(path.trim_start_matches('/'));
        match bytes {
            None => fs::create_dir(path).expect("a folder can be made"),
            Some(bytes) => fs::write(path, bytes).expect("a file can be written"),
        }
    }
}

/// What is really there, to compare with [`Keep::Everything`].
pub fn really(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    Disk::new(root).image(Keep::Everything)
}
