//! What pages become, and what hostile ones cost.

use super::*;
use proptest::prelude::*;

fn converted(html: &str, target: Target) -> Converted {
    let address = Url::parse("https://example.com/docs/page?q=1").unwrap();
    convert(html, target, &address, usize::MAX)
}

fn markdown(html: &str) -> String {
    converted(html, Target::Markdown).text
}

fn text(html: &str) -> String {
    converted(html, Target::Text).text
}

// BUILTIN-68
#[test]
fn a_page() {
    println!("{}\n======\n{}", markdown(PAGE), text(PAGE));
}

const PAGE: &str = r##"<!DOCTYPE html><html><head><title>The title</title><script>x()</script></head><body>
<h1>Heading</h1><p>Some <b>bold</b> and <i>it</i>, a <a href="/x?a=1&amp;b=2">link</a>, <code>a_b &lt;c&gt;</code>.</p>
<ul><li>one<li>two<ol start=3><li>x<li>y</ol></ul>
<pre><code class="language-rust">fn main() {
    let a = "&lt;p&gt;";
}</code></pre>
<table><tr><th>A<th>B<tr><td>1|2<td>x<br>y</table>
<blockquote><p>q</p><p>r</p></blockquote><hr>
<p>5 &lt; 6 &amp;&amp; &lt;b&gt; caf&eacute;<br>next&nbsp;x</p><img src=a.png alt="An image"><a href="javascript:x">js</a> <a href="#top">top</a>
</body></html>"##;

#[test]
fn timing() {
    const MB5: usize = 5 * 1024 * 1024;
    let fill = |part: &str| part.repeat(MB5 / part.len());
    let docs: Vec<(&str, String)> = vec![
        ("div", fill("<div>")),
        ("div text", fill("<div>x")),
        ("b text", fill("<b>x")),
        ("b/b", fill("<b>x</b>")),
        ("b/i", fill("<b>x</b><i>y</i>")),
        ("p", fill("<p>x")),
        ("lt", fill("<")),
        ("amp", fill("&")),
        ("entities", fill("&amp;")),
        ("bad entities", fill("&a;")),
        ("unclosed tag", "<a ".to_owned() + &fill("a=b ")),
        ("attributes", "<a ".to_owned() + &(0..700_000).map(|n| format!("a{n} ")).collect::<String>() + ">x"),
        ("many tags with quote", fill("<a href=\"")),
        ("comments", fill("<!--")),
        ("comments closed", fill("<!---->")),
        ("bogus", fill("</ ")),
        ("table", "<table>".to_owned() + &fill("<tr><td>x")),
        ("table cells", "<table>".to_owned() + &fill("<td>x")),
        ("table stray", "<table>".to_owned() + &fill("<p>x<tr>")),
        ("nested tables", fill("<table><tr><td>")),
        ("wide cell", "<table><tr><th>".to_owned() + &"x".repeat(MB5 / 2) + &fill("<tr><td>a<td>b")),
        ("lists", fill("<ul><li>x")),
        ("pre in lists", "<ul><li>".repeat(50) + "<pre>" + &fill("x\n")),
        ("quotes", "<blockquote>".repeat(50) + "<pre>" + &fill("x\n")),
        ("links", fill("<a href=/x>y</a>")),
        ("backticks", "<code>".to_owned() + &fill("`` ` ``` a")),
        ("ol", "<ol>".to_owned() + &fill("<li>x")),
        ("scripts", fill("<script>")),
        ("svg", fill("<svg>")),
        ("br", fill("<br>")),
        ("title", fill("<title>")),
        ("select", fill("<option>")),
        ("newlines", fill("\n")),
        ("brackets", fill("[*_`")),
        ("a b mis", fill("<a href=x><b><p></a>x")),
        ("pre div", "<pre>".to_owned() + &fill("<div>x")),
    ];
    for (name, doc) in docs {
        for target in [Target::Markdown, Target::Text] {
            let at = std::time::Instant::now();
            let converted = converted(&doc, target);
            println!("{name} {target:?} {:?} out {} cut {}", at.elapsed(), converted.text.len(), converted.cut);
        }
    }
}
