//! What axum, http and bytes offer: data of the request, and wrappers that are what they hold.

use axum::extract::rejection;

use super::{EffectFree, effect_free};

effect_free!(
    bytes::Bytes,
    bytes::BytesMut,
    http::HeaderName,
    http::HeaderValue,
    http::Method,
    http::StatusCode,
    http::Uri,
    http::Version,
    http::uri::Authority,
    http::uri::PathAndQuery,
    http::uri::Scheme,
    mime::Mime,
    serde_json::Map<String, serde_json::Value>,
    serde_json::Number,
    serde_json::Value,
    uuid::Uuid,
);

effect_free!(
    axum::extract::MatchedPath,
    axum::extract::NestedPath,
    axum::extract::OriginalUri,
    axum::extract::RawForm,
    axum::extract::RawPathParams,
    axum::extract::RawQuery,
);

// for `Result<Json<T>, JsonRejection>` and the like
effect_free!(
    axum::extract::multipart::MultipartError,
    axum::extract::multipart::MultipartRejection,
    rejection::BytesRejection,
    rejection::ExtensionRejection,
    rejection::FormRejection,
    rejection::JsonRejection,
    rejection::MatchedPathRejection,
    rejection::NestedPathRejection,
    rejection::PathRejection,
    rejection::QueryRejection,
    rejection::RawFormRejection,
    rejection::RawPathParamsRejection,
    rejection::StringRejection,
);

impl<T: EffectFree> EffectFree for http::HeaderMap<T> {}
impl<T: EffectFree> EffectFree for axum::extract::State<T> {}
impl<T: EffectFree> EffectFree for axum::Extension<T> {}
impl<T: EffectFree> EffectFree for axum::extract::ConnectInfo<T> {}
impl<T: EffectFree> EffectFree for axum::Json<T> {}
impl<T: EffectFree> EffectFree for axum::Form<T> {}
impl<T: EffectFree> EffectFree for axum::extract::Query<T> {}
impl<T: EffectFree> EffectFree for axum::extract::Path<T> {}
impl<T: EffectFree> EffectFree for crate::inbox::Message<T> {}
