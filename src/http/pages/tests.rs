//! Pages and files, without a browser.

use actix_web::test::TestRequest;

use super::super::testing::Bench;
use super::FILES;

#[actix_web::test]
async fn the_page_speaks_chinese_by_its_address_and_by_the_browser() {
    let bench = Bench::new().await;
    let page = bench.get("/?lang=zh&feed=room-7").await;
    assert!(
        page.text.contains("<html lang=\"zh\">")
            && page.text.contains("送礼物")
            && page.text.contains("room-7")
    );
    let browser = TestRequest::get().uri("/").insert_header(("Accept-Language", "zh-CN,en;q=0.5"));
    assert!(bench.send(browser).await.text.contains("送礼物"));
    assert!(bench.get("/").await.text.contains("Send a gift"));
}

#[actix_web::test]
async fn the_overlay_is_for_legal_names_only_and_runs_no_markup_of_its_address() {
    let bench = Bench::new().await;
    let page = bench.get("/overlay/room-7?theme=%22%3E%3Cscript%3E").await;
    assert!(page.status == 200 && page.text.contains("data-feed=\"room-7\""), "{}", page.text);
    assert!(page.header("content-security-policy").contains("script-src 'self'"));
    assert_eq!(page.text.matches("<script").count(), 1);
    for feed in ["", "a%20b", "%3Cscript%3E", &"x".repeat(65)] {
        let answer = bench.get(&format!("/overlay/{feed}")).await;
        assert_eq!((answer.status, answer.problem()), (422, "invalid".into()), "{feed}");
    }
}

#[actix_web::test]
async fn every_file_can_be_loaded_from_another_origin_and_every_import_is_a_file() {
    let bench = Bench::new().await;
    for file in FILES.iter() {
        let answer = bench.get(&format!("/static/{}", file.name)).await;
        assert_eq!(
            (answer.status, answer.header("access-control-allow-origin")),
            (200, "*"),
            "{}",
            file.name
        );
        for imported in file.text.lines().filter_map(|line| line.split_once(" from \"./")) {
            let name = imported.1.trim_end_matches("\";");
            assert!(FILES.iter().any(|file| file.name == name), "{} imports {name}", file.name);
        }
    }
}

#[actix_web::test]
async fn overlays_of_leaders_and_goals_are_for_legal_names_only() {
    let bench = Bench::new().await;
    for (path, goal) in [("/overlay/room-7/leaders", ""), ("/overlay/room-7/goal/mic", "mic")] {
        let page = bench.get(path).await;
        assert!(page.status == 200 && page.text.contains(&format!("data-goal=\"{goal}\"")), "{path}");
    }
    for path in ["/overlay/a%22b/leaders", "/overlay/room-7/goal/%3Cb%3E", "/overlay/room-7/goal/"] {
        assert_eq!(bench.get(path).await.status, 422, "{path}");
    }
}

/// Charts come from npm's `uplot` 1.6.32 as it is there, with its licence beside it.
#[test]
fn the_charts_library_is_the_published_one() {
    let sums = [("uplot.js", "19c8d4c6ad88929a"), ("uplot.css", "df630c6a8d6f8eea")];
    for (name, sum) in sums {
        assert_eq!(FILES.iter().find(|file| file.name == name).unwrap().tag, sum, "{name}");
    }
    assert!(include_str!("../../../static/uplot.LICENSE.txt").contains("Copyright (c) 2022 Leon Sorokin"));
}
