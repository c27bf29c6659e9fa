//! What other crates offer, each behind the feature of its name.

#[cfg(any(
    feature = "axum-extra",
    feature = "chrono",
    feature = "rust_decimal",
    feature = "time"
))]
use super::effect_free;

#[cfg(feature = "chrono")]
mod dates {
    use chrono::{
        DateTime, Days, FixedOffset, Month, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta,
        TimeZone, Utc, Weekday,
    };

    use super::effect_free;
    use crate::capability::EffectFree;

    effect_free!(
        Days,
        FixedOffset,
        Month,
        Months,
        NaiveDate,
        NaiveDateTime,
        NaiveTime,
        TimeDelta,
        Utc,
        Weekday,
    );
    impl<Z: TimeZone<Offset: EffectFree> + EffectFree> EffectFree for DateTime<Z> {}
}

#[cfg(feature = "time")]
effect_free!(
    time::Date,
    time::Duration,
    time::Month,
    time::OffsetDateTime,
    time::PrimitiveDateTime,
    time::Time,
    time::UtcDateTime,
    time::UtcOffset,
    time::Weekday,
);

#[cfg(feature = "rust_decimal")]
effect_free!(rust_decimal::Decimal);

#[cfg(feature = "axum-extra")]
#[allow(deprecated, reason = "while axum-extra has them, handlers take them")]
mod extractors {
    use axum_extra::TypedHeader;
    use axum_extra::extract::{
        Cached, CookieJar, Form, Host, OptionalPath, OptionalQuery, PrivateCookieJar, Query,
        Scheme, SchemeMissing, SignedCookieJar, WithRejection, cookie, rejection,
    };
    use axum_extra::headers::Header;
    use std::convert::Infallible;
    use std::panic::{RefUnwindSafe, UnwindSafe};

    use super::effect_free;
    use crate::capability::EffectFree;
    use crate::capability::request::{Data, RequestData};

    effect_free!(
        CookieJar,
        Host,
        Scheme,
        SchemeMissing,
        rejection::HostRejection,
        axum_extra::extract::OptionalQueryRejection,
        cookie::Cookie<'_>,
        cookie::Key,
        axum_extra::extract::QueryRejection,
        axum_extra::extract::FormRejection,
        axum_extra::typed_header::TypedHeaderRejection,
    );
    #[diagnostic::do_not_recommend]
    impl<K> EffectFree for PrivateCookieJar<K> {}
    #[diagnostic::do_not_recommend]
    impl<K> EffectFree for SignedCookieJar<K> {}

    impl<T: EffectFree> EffectFree for Cached<T> {}
    impl<T: RequestData> RequestData for Cached<T> {
        type Rejection = T::Rejection;
    }
    impl<T: EffectFree, R> EffectFree for WithRejection<T, R> {}
    impl<T: RequestData, R> RequestData for WithRejection<T, R> {
        type Rejection = T::Rejection;
    }
    impl<T: EffectFree> EffectFree for TypedHeader<T> {}
    // as data that serde made: from the request alone
    impl<T: Header + UnwindSafe + RefUnwindSafe> RequestData for TypedHeader<T> {
        type Rejection = Infallible;
    }
    impl<T: EffectFree> EffectFree for Form<T> {}
    impl<T: Data> RequestData for Form<T> {
        type Rejection = Infallible;
    }
    impl<T: EffectFree> EffectFree for Query<T> {}
    impl<T: Data> RequestData for Query<T> {
        type Rejection = Infallible;
    }
    impl<T: EffectFree> EffectFree for OptionalQuery<T> {}
    impl<T: Data> RequestData for OptionalQuery<T> {
        type Rejection = Infallible;
    }
    impl<T: EffectFree> EffectFree for OptionalPath<T> {}
    impl<T: Data> RequestData for OptionalPath<T> {
        type Rejection = Infallible;
    }
}

#[cfg(all(
    test,
    feature = "axum-extra",
    feature = "chrono",
    feature = "rust_decimal",
    feature = "time"
))]
mod tests {
    use axum::Json;
    use axum::extract::State;
    use axum::extract::rejection::JsonRejection;
    use axum_extra::TypedHeader;
    use axum_extra::extract::{Cached, CookieJar, Form, PrivateCookieJar, Query, WithRejection};
    use axum_extra::headers::{Authorization, UserAgent, authorization::Bearer};

    use crate::capability::vet;

    #[derive(serde::Deserialize)]
    struct Page {
        #[allow(dead_code, reason = "read by serde")]
        size: u32,
    }

    /// That it compiles is the test.
    #[test]
    fn types_of_other_crates_pass() {
        vet::<State<chrono::DateTime<chrono::Utc>>>()
            .takes::<State<chrono::DateTime<chrono::Utc>>>();
        vet::<State<time::OffsetDateTime>>().takes::<State<time::OffsetDateTime>>();
        vet::<State<rust_decimal::Decimal>>().takes::<State<rust_decimal::Decimal>>();
        vet::<CookieJar>().takes::<CookieJar>();
        vet::<PrivateCookieJar>().takes::<PrivateCookieJar>();
        vet::<TypedHeader<UserAgent>>().takes::<TypedHeader<UserAgent>>();
        vet::<Option<TypedHeader<Authorization<Bearer>>>>()
            .takes::<Option<TypedHeader<Authorization<Bearer>>>>();
        vet::<Query<Page>>().takes::<Query<Page>>();
        vet::<Form<Page>>().takes::<Form<Page>>();
        vet::<Cached<CookieJar>>().takes::<Cached<CookieJar>>();
        vet::<WithRejection<Json<Page>, JsonRejection>>()
            .takes::<WithRejection<Json<Page>, JsonRejection>>();
    }
}
