//! Text as a data URL: it is a part that says the same again, or an error without any of its text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolnexus_core::ContentPart;
use toolnexus_core::content::PartErrorCode;

fuzz_target!(|text: &str| {
    read(text);
    read(&format!("data:{text}"));
    read(&format!("data:image/png;base64,{text}"));
});

fn read(url: &str) {
    match ContentPart::from_data_url(url) {
        Ok(part) => {
            let (mime, data) = (part.mime_type().unwrap(), part.data().unwrap());
            assert!(part.validate(Some(part.part_bytes())).is_ok());
            let again = ContentPart::from_data_url(format!("data:{mime};base64,{data}")).unwrap();
            assert_eq!(again, part, "written as it is read, it is the same part");
        }
        Err(error) => assert_eq!(error.code, PartErrorCode::SourceMissing),
    }
}
