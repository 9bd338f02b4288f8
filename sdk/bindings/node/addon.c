/* The native part of the npm package: the functions that index.js calls. */
#include "addon.h"

static napi_value version(napi_env env, napi_callback_info info)
{
    (void)info;
    return js_text(env, inlay_version(), NAPI_AUTO_LENGTH);
}

static napi_value init(napi_env env, napi_value exports)
{
    static const struct {
        const char *name;
        napi_callback fn;
    } functions[] = { { "createSession", session_create }, { "describe", session_describe }, { "run", run_start },
                      { "control", control_start },        { "release", session_release },   { "version", version },
                      { "endProfile", profile_end } };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        napi_value fn;

        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].fn, NULL, &fn) == napi_ok)
            js_put(env, exports, functions[i].name, fn);
    }
    return exports;
}

NAPI_MODULE(inlay, init)
