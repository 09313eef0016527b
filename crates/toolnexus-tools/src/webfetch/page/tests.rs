//! What pages become, and what hostile ones cost.

use super::*;
use proptest::prelude::*;

fn address() -> Url {
    Url::parse("https://example.com/docs/page?q=1").unwrap()
}

fn markdown(html: &str) -> String {
    convert(html, Target::Markdown, &address(), usize::MAX).text
}

fn text(html: &str) -> String {
    convert(html, Target::Text, &address(), usize::MAX).text
}

const PAGE: &str = r##"<!DOCTYPE html><html><head><title>The title</title>
<style>p { color: red }</style><script>if (a < b) { document.write("<p>no</p>") }</script></head>
<body><nav><a href="../up?a=1&amp;b=2">Up</a></nav>
<h1>Heading <small>one</small></h1>
<p>Some <b>bold</b> and <i>slanted</i> text, <code>a_b &lt;c&gt;</code>&nbsp;and caf&eacute;.<br>5 &lt; 6</p>
<ul><li>one<li>two<ol start=3><li>x<li>y</ol></ul>
<pre><code class="language-rust">fn main() {
    let tag = "&lt;p&gt;";
}</code></pre>
<table><tr><th>A<th>B<tr><td>1|2<td>x<br>y</table>
<blockquote><p>q</p><p>r</p></blockquote>
<hr><noscript>no</noscript><svg><text>no</text></svg><!-- no -->
<p>the <img src="a.png" alt="image"></p>
</body></html>"##;

// BUILTIN-68, BUILTIN-69: headings, links, lists, code, tables; entities decoded; scripts and styles gone
#[test]
fn a_page_as_markdown() {
    let expected = r#"The title

[Up](https://example.com/up?a=1&b=2)

# Heading one

Some **bold** and *slanted* text, `a_b <c>` and café.
5 < 6

- one
- two
  3. x
  4. y

```rust
fn main() {
    let tag = "<p>";
}
```

| A | B |
| --- | --- |
| 1\|2 | x y |

> q
>
> r

- - -

the ![image](https://example.com/docs/a.png)"#;
    assert_eq!(markdown(PAGE).replace('\u{a0}', " "), expected);
}

// BUILTIN-68, BUILTIN-69: blocks on lines of their own; entities decoded; scripts and styles gone
#[test]
fn a_page_as_text() {
    let expected = r#"The title
Up

Heading one

Some bold and slanted text, a_b <c> and café.
5 < 6

one
two
x
y

fn main() {
    let tag = "<p>";
}

A	B
1|2	x
y

q

r

the image"#;
    assert_eq!(text(PAGE).replace('\u{a0}', " "), expected);
}

// BUILTIN-68: no tags remain, neither known nor unknown ones; what is text stays text
#[test]
fn no_tags_remain() {
    let html = "<my-card x=y>a</my-card><font color=red>b</font><o:p>c</o:p><input value=v><iframe src=x>d</iframe>\
                <object>e</object><button>f</button><u>g</u><sub>h</sub><details><summary>i</summary>j</details>";
    assert_eq!(text(html), "abcefgh\ni\nj");
    assert_eq!(markdown(html), "abcefgh\n\ni\n\nj");
    // Text that looks like a tag is none: in Markdown it is escaped, or stands in code.
    assert_eq!(markdown("<p>&lt;b&gt; and <code>&lt;i&gt;</code>"), "\\<b> and `<i>`");
    assert_eq!(text("<p>&lt;b&gt; and <code>&lt;i&gt;</code>"), "<b> and <i>");
    // Nothing that was taken out can put a tag together.
    for html in ["<<!-- -->b>x", "<<script></script>b>x", "<<!-- -->script>x</script>y"] {
        for made in [markdown(html), text(html)] {
            assert!(made.contains('<') && !made.contains("<!--"), "{html}: {made}");
        }
    }
}

// BUILTIN-68: spaces before a line end, three or more line ends, blanks around
#[test]
fn blanks_are_normalised() {
    for (given, expected) in [
        ("  a  \n b\t\n\n\n\n  c \u{a0}\n", "a\n b\n\n  c"),
        ("a\n\nb", "a\n\nb"),
        ("a \n \n \n b", "a\n\n b"),
        ("\n\n", ""),
        ("", ""),
    ] {
        assert_eq!(normalised(given), expected, "{given:?}");
    }
    let html = "<pre>a  \n\n\n\n\nb</pre><p>c<br><br><br><br>d</p><p> </p><p></p><p>e</p>\n\n";
    assert_eq!(text(html), "a\n\nb\n\nc\n\nd\n\ne");
    assert_eq!(markdown(html), "```\na\n\nb\n```\n\nc\n\nd\n\ne");
}

#[test]
fn links_lead_where_the_page_meant() {
    for (link, expected) in [
        ("<a href=/x>t</a>", "[t](https://example.com/x)"),
        ("<a href='x y'>t</a>", "[t](https://example.com/docs/x%20y)"),
        ("<a href=//other.example/x>t</a>", "[t](https://other.example/x)"),
        ("<a href='?a=1&amp;b=2'>t</a>", "[t](https://example.com/docs/page?a=1&b=2)"),
        ("<a href=HTTPS://Other.Example>t</a>", "[t](HTTPS://Other.Example)"),
        ("<a href=mailto:a@b.example>t</a>", "[t](mailto:a@b.example)"),
        ("<a href=#part>t</a>", "[t](#part)"),
        ("<a href='http://[bad'>t</a>", "[t](http://[bad)"),
        ("<a href=' JavaScript:alert(1)'>t</a>", "t"),
        ("<a href='data:text/html,x'>t</a>", "t"),
        ("<a name=x>t</a>", "t"),
        (
            "<a href=/x><div><img src=data:x alt=logo></div><div>t</div></a>",
            "[logo t](https://example.com/x)",
        ),
        ("<a href=/x><div><h3>t</h3><p>u</p></div></a>", "### [t](https://example.com/x)\n\nu"),
        ("<a href=/x><h2>t</h2><p>u</p></a>", "## [t](https://example.com/x)\n\nu"),
        ("<base href=/other/><base href=/no/><a href=x>t</a>", "[t](https://example.com/other/x)"),
        ("<img src=data:image/png;base64,AAAA alt=logo>", "logo"),
        ("<img src=blob:x alt=logo>a", "a"),
    ] {
        assert_eq!(markdown(link), expected, "{link}");
    }
}

#[test]
fn tables_keep_their_shape() {
    for (table, expected) in [
        ("<caption>C</caption><tr><td>a<td>b", "C\n\n| a | b |\n| --- | --- |"),
        (
            "<thead><tr><th>a<th>b<tbody><tr><td>c<td>d<tfoot><tr><td>e",
            "| a | b |\n| --- | --- |\n| c | d |\n| e |",
        ),
        ("<tr><th>a<tr><td>b<td>c", "| a |  |\n| --- | --- |\n| b | c |"),
        ("<tr><td>one<tr><td>two", "one\n\ntwo"),
        ("<tr><td><table><tr><td>a<td>b</table><td>c", "| a b | c |\n| --- | --- |"),
        ("<tr><td><p>a</p><p>b</p><td><ul><li>c</ul>", "| a b | - c |\n| --- | --- |"),
        ("", ""),
    ] {
        assert_eq!(markdown(&format!("<table>{table}</table>")), expected, "{table}");
    }
}

// BUILTIN-71: what comes of a page is not longer than what may come of it
#[test]
fn output_is_cut_at_a_character() {
    let cut = convert("<p>aé€</p>", Target::Text, &address(), 4);
    assert_eq!((cut.text.as_str(), cut.cut), ("aé", true));
    let whole = convert("<p>aé€</p>", Target::Text, &address(), 6);
    assert_eq!((whole.text.as_str(), whole.cut), ("aé€", false));
}

/// A document of about `length` bytes.
fn filled(length: usize, start: &str, part: &str) -> String {
    start.to_owned() + &part.repeat(length / part.len())
}

// What a document costs grows with its length and not faster, else this would take hours.
#[test]
fn hostile_documents_are_converted_in_time() {
    let attributes: String = (0..1_000_000).map(|n| format!("a{n} ")).collect();
    let long_tag = format!("<a {attributes} href=/x>end</a>");
    assert_eq!(markdown(&long_tag), "[end](https://example.com/x)");
    let deep = "<div>".repeat(500_000) + "end" + &"</div>".repeat(500_000);
    assert_eq!((markdown(&deep), text(&deep)), ("end".to_owned(), "end".to_owned()));
    assert!(text(&"<".repeat(100_000)).len() == 100_000);
    for document in [
        filled(5_000_000, "<!--", "-- > <!--"),
        filled(5_000_000, "", "<a href=\""),
        filled(5_000_000, "<script>", "</scrip>"),
        filled(1_000_000, "", "<svg>"),
        filled(1_000_000, "<a ", "b=c "),
        filled(60_000, "", "</p x></ y>"),
        filled(60_000, "", "<ul><li>"),
        filled(60_000, "<pre>", "<div>x"),
        filled(40_000, "", "<b><i><p>x"),
        filled(40_000, "", "<b>x</b>"),
        filled(10_000, "", "<b>x</b><i>y</i>"),
        filled(10_000, "", "<a href=x><b><p></a>y"),
        filled(10_000, "", "&amp;&bad;&#x110000;&"),
        filled(10_000, "", "<table><tr><td>x"),
        filled(10_000, "<table>", "x<p><tr>"),
        filled(10_000, &format!("<table><tr><th>{}<th>b", "x".repeat(100_000)), "<tr><td>a<td>b"),
        filled(10_000, &format!("<table><tr>{}", "<td>a".repeat(3_000)), "<tr><td>a"),
        filled(40_000, &format!("{}<pre>", "<ul><li>".repeat(50)), "x\n"),
        filled(40_000, &format!("{}<pre>", "<blockquote>".repeat(50)), "x\n"),
        filled(40_000, &format!("<b>x{}", " ".repeat(200_000)), "</b><b>"),
        filled(40_000, &format!("<a href=x>{}x", " ".repeat(200_000)), "<h1>"),
        filled(40_000, "<code>", "`` ` ``` a"),
    ] {
        let converted = convert(&document, Target::Markdown, &address(), usize::MAX);
        // Quotes and lists indent each line, but not without end.
        assert!(converted.text.len() <= 16 * document.len() && !converted.cut, "{}", converted.text.len());
        convert(&document, Target::Text, &address(), usize::MAX);
    }
}

// The deepest structure that is kept fits on the stack of a thread that does blocking work.
#[test]
fn deep_structures_fit_on_the_stack() {
    let made = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(|| {
        for part in ["<ul><li>", "<blockquote>", "<div>", "<table><tr><td>", "<a href=x><div><b><p>"] {
            let deep = part.repeat(200) + "end";
            assert!(markdown(&deep).ends_with("end") || markdown(&deep).contains("end"), "{part}");
            assert!(text(&deep).ends_with("end"), "{part}");
        }
    });
    made.unwrap().join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // BUILTIN-68: whatever is converted is clean, and its words are there
    #[test]
    fn words_survive_and_tags_do_not(parts in proptest::collection::vec(prop::sample::select(vec![
        "<p>", "</p>", "<div>", "</div>", "<b>", "</b>", "<a href='/x'>", "</a>", "<ul>", "<li>", "</ul>",
        "<table>", "<tr>", "<td>", "<th>", "</table>", "<caption>", "<pre>", "</pre>", "<code>", "</code>",
        "<h2>", "</h2>", "<blockquote>", "</blockquote>", "<br>", "<hr>", "<x-y>", "<!-- c -->", "<title>", "</title>",
        "word", "word", "word", " ", "\n",
    ]), 0..60)) {
        let html = parts.concat();
        // Tags in a title are its text.
        let expected = html.matches("word").count();
        for made in [markdown(&html), text(&html)] {
            prop_assert_eq!(made.matches("word").count(), expected, "{}\n{}", html, made);
            if !html.contains("<title>") {
                prop_assert!(!made.contains('<'), "{}\n{}", html, made);
            }
            prop_assert!(!made.contains("\n\n\n") && !made.contains(" \n") && made.trim() == made, "{}\n{:?}", html, made);
        }
    }

    #[test]
    fn anything_is_converted(html in "[<>/!&;\"'= a-z#\\-\n\u{e9}]{0,200}") {
        markdown(&html);
        text(&html);
    }
}
