use super::*;

fn every() -> Vec<ApiError> {
    let id: GiftId = "g-1".parse().unwrap();
    vec![
        ApiError::Syntax("EOF".into()),
        ApiError::BrokenBody("cut".into()),
        ApiError::MalformedPath("user"),
        ApiError::Unauthenticated { tried: false },
        ApiError::BadToken(BadToken::Expired),
        ApiError::BadToken(BadToken::KeysUnavailable(2)),
        ApiError::BadSignature(Unsigned::Stale),
        ApiError::Unverified("x".into()),
        ApiError::TooManySources(16),
        ApiError::NotAllowed(Denied::Feed("x".into())),
        ApiError::Misdirected,
        ApiError::KeysNeeded,
        ApiError::TooManyReaders,
        ApiError::ForeignOrigin,
        ApiError::RateLimited(3),
        ApiError::TooManyConnections,
        ApiError::TooManySubscriptions("wait"),
        ApiError::TooManyWaitingClaims("this key"),
        ApiError::NoPlace,
        ApiError::NotFound("no".into()),
        ApiError::MethodNotAllowed("GET"),
        ApiError::BodyTimeout(1),
        ApiError::TooLarge(8),
        ApiError::UnsupportedMediaType("send JSON".into()),
        invalid("a \"quoted\" fault"),
        ApiError::IdReused(id),
        ApiError::NotCounted(false),
        ApiError::NotCounted(true),
        ApiError::TooManyGoals,
        ApiError::DropTotal(3),
        ApiError::SoldOut(0),
        ApiError::AlreadyClaimed(None),
        ApiError::TooManyHolds(7),
        ApiError::DropNotOpen(Phase::Pending),
        ApiError::NothingToRefund("the gift has no value"),
        ApiError::HoldEnded,
        ApiError::Replayed,
        ApiError::UpgradeRequired,
        ApiError::BadHandshake("no key".into()),
        ApiError::Internal,
        ApiError::ScheduleFull(7),
        ApiError::ReviewFull(7),
        ApiError::Reviewed(Decision::Mask),
        ApiError::UserBlocked,
        ApiError::TooManyBlocks(9),
        ApiError::AlreadyShown("g-2".parse().unwrap()),
        ApiError::Unavailable,
        ApiError::Overloaded("queue"),
        ApiError::StoreFull,
        ApiError::NotReplicated,
        ApiError::FeedDamaged,
        ApiError::PartDown("the writer".into()),
        ApiError::NotReady("down".into()),
    ]
}

#[test]
fn every_error_is_a_problem_document_whose_type_is_described() {
    for error in every() {
        let problem: serde_json::Value = serde_json::to_value(error.problem()).unwrap();
        let answer = error.error_response();
        assert_eq!(problem["status"], answer.status().as_u16(), "{error}");
        let name = problem["type"].as_str().unwrap().strip_prefix("/problems/").unwrap();
        assert!(KINDS.iter().any(|kind| kind.name == name), "{name}");
        assert_eq!(answer.headers().get("content-type").unwrap(), "application/problem+json");
        assert_eq!(
            matches!(answer.status().as_u16(), 429 | 503) || matches!(error, ApiError::TooManyHolds(_)),
            answer.headers().contains_key(RETRY_AFTER)
        );
    }
}

#[test]
fn every_kind_of_problem_is_some_error_of_the_api() {
    let used: Vec<_> = every().iter().map(|error| error.kind().name).collect();
    for kind in KINDS {
        assert!(used.contains(&kind.name), "{} is never answered", kind.name);
    }
}

#[test]
fn an_internal_error_tells_nothing() {
    let problem: serde_json::Value = serde_json::to_value(ApiError::Internal.problem()).unwrap();
    assert_eq!(problem.get("detail"), None);
}

#[test]
fn a_reused_id_points_at_the_id() {
    let error = ApiError::IdReused("g".parse().unwrap());
    let problem: serde_json::Value = serde_json::to_value(error.problem()).unwrap();
    assert_eq!(problem["errors"][0]["pointer"], "/id");
    assert_eq!(problem["type"], "/problems/id-reused");
}
