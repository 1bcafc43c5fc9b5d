use super::*;

pub(super) fn inbound(most: usize, per_address: usize) -> Arc<Inbound> {
    let s = Duration::from_secs;
    let times = Times { head: s(10), body: s(10), keep_alive: s(75) };
    let (handshakes, handshakes_per_address) = (0, 0);
    let (leaving, refusals) = (1, 2);
    let bounds = Bounds {
        most,
        leaving,
        refusals,
        per_address,
        unsent_per_address: 0,
        count_loopback: false,
        handshakes,
        handshakes_per_address,
    };
    Inbound::new(InboundSettings { times, hsts: None, send_buffer: 0 }, bounds, Arc::default())
}

pub(super) fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn an_address_has_its_connections_and_no_more_unless_it_is_a_proxy_or_this_machine() {
    let inbound = inbound(100, 2);
    let mine: Vec<_> = (0..2).map(|_| inbound.accept(ip("9.9.9.9"), false).unwrap()).collect();
    assert_eq!(inbound.accept(ip("9.9.9.9"), false).unwrap_err(), Turned::Address);
    assert!(inbound.accept(ip("8.8.8.8"), false).is_ok());
    for (address, proxied) in [("7.7.7.7", true), ("127.0.0.1", false), ("::ffff:127.0.0.1", false)] {
        let all: Vec<_> = (0..3).map(|_| inbound.accept(ip(address), proxied)).collect();
        assert!(all.iter().all(Result::is_ok), "{address}");
    }
    drop(mine);
    assert!(inbound.accept(ip("9.9.9.9"), false).is_ok());
    assert!(inbound.locked().of.is_empty() && inbound.locked().count() == 0);
    assert_eq!(inbound.metrics.connections_refused[Turned::Address].get(), 1);
}

#[test]
fn idle_connections_make_room_and_served_ones_do_not() {
    let inbound = inbound(4, 0);
    let open: Vec<_> = (0..4).map(|_| inbound.accept(None, false).unwrap()).collect();
    open[0].enter(PeerPhase::Busy);
    open[1].enter(PeerPhase::Idle);
    let _seat = open[3].into_watcher_seat(None);
    let fifth = inbound.accept(None, false).unwrap();
    let cut = |peer: &Arc<Peer>| peer.state().is_cut();
    assert_eq!(open.iter().map(cut).collect::<Vec<_>>(), [false, false, true, false], "it never asked");
    fifth.enter(PeerPhase::Busy);
    // One more fits beside the one that is about to leave; the next takes the idle one's place.
    let sixth = inbound.accept(None, false).unwrap();
    sixth.enter(PeerPhase::Busy);
    assert!(cut(&open[1]));
    assert_eq!(inbound.accept(None, false).unwrap_err(), Turned::Full);
    assert_eq!(inbound.metrics.connections_cut[Cut::Room].get(), 2);
}

#[test]
fn of_a_burst_the_oldest_makes_room_also_where_the_newest_has_a_place_that_was_left() {
    let inbound = inbound(4, 0);
    let mut open: Vec<_> = (0..4).map(|_| inbound.accept(None, false).unwrap()).collect();
    open.remove(0);
    let newest = inbound.accept(None, false).unwrap();
    assert_eq!(newest.key, 0);
    let _another = inbound.accept(None, false).unwrap();
    let cut = [&open[0], &open[1], &open[2], &newest].map(|peer| peer.is_cut());
    assert_eq!(cut, [true, false, false, false]);
}

#[test]
fn nobody_is_accepted_while_too_many_that_made_room_have_not_ended_and_where_none_can_somebody_is() {
    let inbound = inbound(2, 0);
    let mut open: Vec<_> = (0..2).map(|_| inbound.accept(None, false).unwrap()).collect();
    assert!(inbound.may_accept(), "one more than may stay, because one was cut");
    assert_eq!(open.iter().filter(|peer| peer.is_cut()).count(), 1);
    open.push(inbound.accept(None, false).unwrap());
    assert!(!inbound.may_accept(), "the one that was cut has not ended");
    open.retain(|peer| !peer.is_cut());
    assert!(inbound.may_accept());
    open.iter().for_each(|peer| peer.enter(PeerPhase::Busy));
    open.push(inbound.accept(None, false).unwrap_or_else(|why| panic!("{why:?}")));
    open.retain(|peer| !peer.is_cut());
    open.iter().for_each(|peer| peer.enter(PeerPhase::Busy));
    assert!(inbound.may_accept(), "nobody can be cut, so the next one is told why it is refused");
    let permits: Vec<_> = (0..2).map(|_| inbound.may_refuse().unwrap()).collect();
    assert!(inbound.may_refuse().is_none());
    drop(permits);
    assert!(inbound.may_refuse().is_some());
}

#[test]
fn a_dribbling_refused_body_makes_room() {
    let inbound = inbound(2, 0);
    let refused = inbound.accept(None, false).unwrap();
    refused.enter_busy();
    refused.enter_draining();
    refused.continue_request();
    assert_eq!(refused.state().phase(), PeerPhase::Rest);
    let served = inbound.accept(None, false).unwrap();
    served.enter_busy();
    assert!(inbound.accept(None, false).is_ok() && refused.state().is_cut() && !served.state().is_cut());
    refused.set_next(PeerPhase::Idle);
    refused.finish_answer();
    assert_eq!(refused.state().phase(), PeerPhase::Idle);
    refused.continue_request();
    assert_eq!(refused.state().phase(), PeerPhase::Busy, "of the next request");
}

#[test]
fn an_answer_has_time_to_go_out_where_no_connection_is_kept() {
    let times = Times { keep_alive: Duration::ZERO, ..inbound(1, 0).settings.times };
    assert_eq!(overdue(PeerPhase::Idle, Duration::from_secs(9), &times), None);
    assert_eq!(overdue(PeerPhase::Idle, Duration::from_secs(11), &times), Some(Cut::Idle));
}

#[test]
fn every_phase_that_waits_for_the_client_has_its_time() {
    let times = inbound(1, 0).settings.times;
    let s = Duration::from_secs;
    for (phase, most) in [
        (PeerPhase::New, Some(11)),
        (PeerPhase::Head, Some(11)),
        (PeerPhase::Opening, Some(11)),
        (PeerPhase::Rest, Some(10)),
        (PeerPhase::Idle, Some(75)),
        (PeerPhase::Sending, Some(75)),
        (PeerPhase::Busy, None),
    ] {
        assert_eq!(overdue(phase, s(9), &times), None, "{phase:?}");
        match most {
            Some(most) => assert!(overdue(phase, s(most), &times).is_some(), "{phase:?}"),
            None => assert_eq!(overdue(phase, s(86_400), &times), None, "{phase:?}"),
        }
    }
}

#[test]
fn the_sweep_cuts_once_and_counts_why() {
    let inbound = inbound(4, 0);
    let peer = inbound.accept(None, false).unwrap();
    inbound.sweep(inbound.now() + 20_000_000_000);
    inbound.sweep(inbound.now() + 20_000_000_000);
    assert!(peer.state().is_cut());
    assert_eq!(inbound.metrics.connections_cut[Cut::Head].get(), 1);
}

#[test]
fn a_watcher_keeps_nothing_of_what_read_its_head() {
    struct Task;
    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let (inbound, task) = (inbound(2, 0), Arc::new(Task));
    let peer = inbound.accept(None, false).unwrap();
    peer.watch(&task.clone().into());
    assert_eq!(Arc::strong_count(&task), 2);
    let seat = peer.into_watcher_seat(None);
    drop(peer);
    assert_eq!(Arc::strong_count(&task), 1);
    let other = inbound.accept(None, false).unwrap();
    other.enter(PeerPhase::Busy);
    assert_eq!(inbound.accept(None, false).unwrap_err(), Turned::Full, "it counts for as long as it watches");
    seat.inbound.watcher_left(None);
    assert!(inbound.accept(None, false).is_ok());
    assert_eq!(inbound.metrics.connections.get(), 1);
}

#[test]
fn a_watchers_connection_counts_for_whom_it_watches_until_it_is_over() {
    let inbound = inbound(9, 1);
    let (proxy, client) = (ip("1.1.1.1"), ip("2.2.2.2"));
    let connected = |address, proxied| inbound.accept(address, proxied);
    let seat = connected(proxy, false).unwrap().into_watcher_seat(client);
    assert!(seat.limited && connected(proxy, false).is_ok(), "it was a proxy's, which is trusted now");
    assert_eq!(connected(client, false).unwrap_err(), Turned::Address);
    inbound.watcher_left(client);
    assert!(connected(client, false).is_ok());
    // Of those that are not limited nobody has one less.
    let free = connected(proxy, true).unwrap().into_watcher_seat(client);
    assert!(!free.limited && connected(client, false).is_ok());
    inbound.watcher_left(None);
    assert!(inbound.locked().of.is_empty() && inbound.locked().count() == 0);
}
