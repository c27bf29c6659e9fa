//! The pages of an erasure.

use super::setup::{Engine, LEASE, Place, sample};

on_each_database! {
    a_page_that_is_not_full_is_the_last,
}

/// Else records that come meanwhile, which time puts behind all others, would be followed for as long as they come.
async fn a_page_that_is_not_full_is_the_last<DB: Engine>(place: &Place<DB>) {
    for number in 1..=5 {
        place.begin(&sample(number), LEASE).await;
    }
    let scope = &sample(0).scope;
    let mut after = None;
    for (kept, last) in [(2, Some(2)), (2, Some(4)), (1, None)] {
        let mut connection = place.connection().await;
        let page = DB::erase_scope(&mut *connection, scope, after.as_ref(), 2)
            .await
            .unwrap();
        assert_eq!((page.erased, page.kept), (0, kept));
        assert_eq!(page.last, last.map(|number| sample(number).id));
        after = page.last;
    }
}
