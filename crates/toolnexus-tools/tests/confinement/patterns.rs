//! Patterns that name what lies outside of the directory that is searched.

use std::fs;

use serde_json::json;

use crate::scene::{Scene, assert_no_secret};

// BUILTIN-27, BUILTIN-106: a pattern matches what a walk meets; a walk meets nothing outside
#[tokio::test]
async fn patterns_find_nothing_outside() {
    let scene = Scene::new();
    let before = scene.outside();
    let root = scene.text("");
    let root = root.trim_end_matches('/');
    for pattern in [
        "../outside/*".to_owned(),
        "../outside/secret".to_owned(),
        "../**/secret".to_owned(),
        "sub/../../outside/*".to_owned(),
        "**/../outside/*".to_owned(),
        "*/../../outside/secret".to_owned(),
        "{..,sub}/outside/*".to_owned(),
        "{../outside/secret,x}".to_owned(),
        "[.][.]/outside/*".to_owned(),
        "./../outside/secret".to_owned(),
        "..".to_owned(),
        "../".to_owned(),
        "/".to_owned(),
        "/**".to_owned(),
        "/etc/*".to_owned(),
        format!("{root}/outside/*"),
        format!("{root}/**/secret"),
        format!("{root}/base/../outside/*"),
        format!("{root}/base-evil/*"),
        format!("{root}/base{}/outside/secret", "/.."),
        "~/*".to_owned(),
        "../outside/[x".to_owned(),
        "../outside/secret\0".to_owned(),
        "..\\outside\\*".to_owned(),
    ] {
        for (tool, arguments) in [
            ("glob", json!({"pattern": pattern})),
            ("glob", json!({"pattern": pattern, "path": "sub"})),
            ("grep", json!({"pattern": ".", "include": pattern})),
            ("grep", json!({"pattern": ".", "include": pattern, "path": "sub"})),
        ] {
            let result = scene.call(tool, arguments.clone()).await;
            let what = format!("{tool} {arguments} -> {result:?}");
            assert_no_secret(&result, &what);
            let rows = if result.is_error { "" } else { result.output.as_str() };
            assert!(!rows.contains("secret") && !rows.contains("passwd"), "{what}");
            assert!(rows.lines().all(|row| !row.contains("..")), "{what}");
        }
    }
    assert_eq!(scene.outside(), before);
}

// BUILTIN-62: the literal meaning of a pattern is no way to ask what there is outside
#[tokio::test]
async fn a_pattern_does_not_tell_what_exists_outside() {
    let scene = Scene::new();
    fs::write(scene.at("outside/odd[name"), "").unwrap();
    for tool in ["glob", "grep"] {
        let ask = async |name: &str| {
            let pattern = format!("../outside/{name}");
            let arguments =
                json!({"pattern": if tool == "glob" { &pattern } else { "." }, "include": pattern});
            let result = scene.call(tool, arguments).await;
            (result.is_error, result.output.replace(name, "NAME"))
        };
        assert_eq!(ask("odd[name").await, ask("not[here").await, "{tool}");
    }
}

// BUILTIN-27: nor does a refusal, not even by why a path out there leads nowhere
#[tokio::test]
async fn a_refusal_does_not_tell_what_exists_outside() {
    let scene = Scene::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::os::unix::fs::symlink("circle", scene.at("outside/circle")).unwrap();
        fs::create_dir(scene.at("outside/shut")).unwrap();
        fs::set_permissions(scene.at("outside/shut"), fs::Permissions::from_mode(0o000)).unwrap();
    }
    for call in crate::scene::calls("../outside/NAME") {
        let ask = async |name: &str| {
            let arguments = call.arguments.to_string().replace("NAME", name);
            let result = scene.call(call.tool, serde_json::from_str(&arguments).unwrap()).await;
            (result.is_error, result.output.replace(name, "NAME"))
        };
        let there = ask("secret").await;
        assert_eq!(there, ask("absent").await);
        assert_eq!(there, ask("dir").await);
        assert_eq!(there, ask("circle").await);
        assert_eq!(there, ask("circle/x").await);
        assert_eq!(there, ask("shut/x").await);
        assert_eq!(there, ask("secret/x").await);
        assert_eq!(there.1, scene.refusal(call.tool, "../outside/NAME"));
    }
}
