//! The binary: the command line of the library, and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    abeyance::cli::main(std::env::args_os())
}
