use iolane_study::claims::lint;
use iolane_study::plan::{BUILT_IN, Study};

#[test]
fn the_built_in_studies_select_what_they_mean_at_both_scales() {
    for built_in in BUILT_IN {
        let study = Study::parse(built_in.text, built_in.name).unwrap();
        assert_eq!(lint(&study), Vec::<String>::new(), "{}", built_in.name);
    }
}
