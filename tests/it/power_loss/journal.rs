//! Reads what the preloaded library wrote down.

use std::{fs, path::Path};

/// One thing that the process did to the files, in the order in which it did them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Create {
        inode: u64,
        path: String,
    },
    Write {
        inode: u64,
        at: usize,
        data: Vec<u8>,
    },
    Truncate {
        inode: u64,
        length: usize,
    },
    Unlink {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    MakeDir {
        inode: u64,
        path: String,
    },
    FlushBegin {
        inode: u64,
        number: u64,
    },
    FlushEnd {
        inode: u64,
        number: u64,
    },
    FlushFailed {
        inode: u64,
        number: u64,
    },
}

const HEAD: usize = 32;
const MAGIC: u32 = 0x314a_4241;

/// Reads a journal. Its last entry may be torn by a kill; what it was about had not happened yet.
pub fn read(path: &Path) -> Vec<Entry> {
    parse(&fs::read(path).expect("the broker ran under the library, so there is a journal"))
}

fn parse(mut bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some((entry, length)) = parse_one(bytes) {
        entries.push(entry);
        bytes = &bytes[length..];
    }
    entries
}

fn parse_one(bytes: &[u8]) -> Option<(Entry, usize)> {
    let head = bytes.get(..HEAD)?;
    let u32_at = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(u32_at(0), MAGIC, "not a journal");
    let (inode, number) = (u64_at(8), u64_at(16));
    let size = usize::try_from(number).expect("64 bits");
    let first = HEAD + u32_at(24) as usize;
    let second = first + u32_at(28) as usize;
    let data = bytes.get(HEAD..first)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a path in UTF-8");
    let path = || text(data);
    let other = bytes.get(first..second)?;
    let entry = match u32_at(4) {
        1 => Entry::Create {
            inode,
            path: path(),
        },
        2 => Entry::Write {
            inode,
            at: size,
            data: data.to_vec(),
        },
        3 => Entry::Truncate {
            inode,
            length: size,
        },
        4 => Entry::Unlink { path: path() },
        5 => Entry::Rename {
            from: path(),
            to: text(other),
        },
        6 => Entry::MakeDir {
            inode,
            path: path(),
        },
        7 => Entry::FlushBegin { inode, number },
        8 => Entry::FlushEnd { inode, number },
        9 => Entry::FlushFailed { inode, number },
        kind => panic!("a journal entry of the unknown kind {kind}"),
    };
    Some((entry, second))
}
