//! Runs one target once: `linear TARGET INPUT BYTES` with an input of about BYTES bytes. Without arguments it lists every
//! target and input. `scripts/linear-check` counts its instructions.

use tipcast_fuzz::{nasty, targets};

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(target), Some(input), Some(bytes)) = (args.next(), args.next(), args.next()) else {
        nasty::INPUTS.iter().for_each(|it| println!("{} {}", it.target, it.name));
        return;
    };
    let bytes = bytes.parse().expect("a number of bytes");
    let input =
        nasty::INPUTS.iter().find(|it| it.target == target && it.name == input).expect("a known input");
    let (_, run) = targets::ALL.iter().find(|(name, _)| *name == target).expect("a known target");
    run(&(input.make)(bytes));
}
