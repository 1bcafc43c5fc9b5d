//! Every parser of strangers' bytes takes time in proportion to what it is given: inputs that cost most (those of the fuzz
//! targets, `fuzz/src/nasty.rs`) are read at n and at 2n bytes. `scripts/linear-check` counts instructions of the same; here
//! the thread's own time is compared, with a bound that only a parser breaks that is far from it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[path = "../../fuzz/src/nasty.rs"]
mod nasty;
#[path = "../../fuzz/src/targets.rs"]
mod targets;

/// What this thread has used of a processor.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// The least time that `run` takes of several.
fn least(run: targets::Target, input: &[u8], times: usize) -> Duration {
    let measure = |_| {
        let before = used();
        run(input);
        used() - before
    };
    (0..times).map(measure).min().unwrap()
}

/// How many times as long a parser takes for twice as much.
fn ratio(input: &nasty::Input, run: targets::Target, times: usize) -> f64 {
    let mut bytes = 16 << 10;
    loop {
        let one = least(run, &(input.make)(bytes), times);
        // Shorter ones are lost among what a call costs anyway.
        if one >= Duration::from_millis(2) || bytes >= 1 << 20 {
            let two = least(run, &(input.make)(2 * bytes), times);
            return two.as_secs_f64() / one.max(Duration::from_micros(200)).as_secs_f64();
        }
        bytes *= 2;
    }
}

#[test]
fn every_parser_takes_time_in_proportion_to_what_strangers_send() {
    let mut wrong = vec![];
    for input in nasty::INPUTS {
        let (_, run) = targets::ALL.iter().find(|(name, _)| *name == input.target).unwrap();
        // Twice as much is four times the work of a parser that is quadratic. A busy machine gets more tries.
        let ratios: Vec<f64> =
            [3, 5, 9].into_iter().map(|times| ratio(input, *run, times)).take_while(|r| *r > 3.0).collect();
        if ratios.len() == 3 {
            wrong.push(format!("{} {}: {ratios:?}", input.target, input.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let read: Vec<&str> = nasty::INPUTS.iter().map(|input| input.target).collect();
    assert!(targets::ALL.iter().all(|(name, _)| read.contains(name)), "each target has inputs");
}
