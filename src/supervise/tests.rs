use super::*;
use std::sync::atomic::AtomicUsize;

#[tokio::test]
async fn a_part_that_panics_is_started_again_and_counted() {
    let parts = Parts::new(Arc::default());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let run = move |_: Beat| {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        async move { assert!(run >= 2, "not yet") }
    };
    parts.clone().keep(Part::Due, run).await;
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    assert_eq!(parts.metrics.part_restarts[Part::Due].get(), 2);
    assert!(parts.locked().is_empty(), "a part that was told to end is no part any more");
}

#[tokio::test]
async fn a_part_that_is_down_is_named_unless_it_is_of_one_feed() {
    let parts = Parts::new(Arc::default());
    for (part, red) in [(Part::Replica, false), (Part::Reports, true)] {
        let kept = tokio::spawn(parts.clone().keep(part, |_| async { panic!("always") }));
        while !parts.locked().iter().any(|(_, state)| state.down.load(Ordering::Relaxed)) {
            tokio::task::yield_now().await;
        }
        assert_eq!(parts.alive().is_err(), red, "{part:?}");
        kept.abort();
        let _ = kept.await;
        assert_eq!(parts.alive(), Ok(()), "what was let go is missed by nobody");
    }
}

#[test]
fn only_a_part_that_has_work_can_be_stuck() {
    let parts = Parts::new(Arc::default());
    let vital = parts.vital(Part::Writer);
    let later = |s| Instant::now() + Duration::from_secs(s);
    assert_eq!(parts.working(later(3_600)), Ok(()), "it has had nothing to do");
    vital.beat().works();
    assert_eq!(parts.working(later(9)), Ok(()));
    let message = parts.working(later(11)).unwrap_err();
    assert!(message.contains("writer"), "{message}");
    vital.beat().rests();
    assert_eq!(parts.working(later(11)), Ok(()));
    vital.done();
    assert_eq!(parts.alive(), Ok(()));
}

#[tokio::test]
async fn the_end_of_a_vital_part_is_told_with_its_name() {
    let parts = Parts::new(Arc::default());
    let vital = parts.vital(Part::Writer);
    let died = std::thread::spawn(move || {
        let _held = vital;
        panic!("as a test");
    });
    assert!(died.join().is_err());
    let why = parts.failed().await;
    assert!(why.contains("writer"), "{why}");
    assert_eq!(parts.alive(), Err(why));
}
