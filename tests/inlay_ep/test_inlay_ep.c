/* The factory of libinlay_ep.so, with the tables of the drop-in: they have all functions that a factory and the
 * creation of a provider need, but no graphs. */
#include "ort_test.h"
#include "ep_types.h"
#include "inlay/inlay.h"

static CreateEpApiFactoriesFn create_factories;
static ReleaseEpApiFactoryFn release_factory;

static OrtEpFactory *open_factory(void)
{
    void *const handle = dlopen(EP_LIBRARY, RTLD_NOW);
    OrtEpFactory *factory = NULL;
    size_t count = 7;
    void *symbol;

    assert_non_null(handle);
    symbol = dlsym(handle, ORT_EP_CREATE_FACTORIES);
    assert_non_null(symbol);
    memcpy(&create_factories, &symbol, sizeof symbol);
    symbol = dlsym(handle, ORT_EP_RELEASE_FACTORY);
    assert_non_null(symbol);
    memcpy(&release_factory, &symbol, sizeof symbol);
    ok(create_factories("a name", base, NULL, &factory, 1, &count));
    assert_int_equal(count, 1);
    return factory;
}

static void test_description(void **state)
{
    OrtEpFactory *factory = open_factory();
    size_t count = 1;

    (void)state;
    assert_string_equal(factory->GetName(factory), "InlayExecutionProvider");
    assert_string_equal(factory->GetVendor(factory), "inlay");
    assert_int_equal(factory->GetVendorId(factory), 0);
    assert_string_equal(factory->GetVersion(factory), inlay_version());
    assert_int_equal(factory->ort_version_supported, 23);
    assert_false(factory->IsStreamAware(factory));
    fails(create_factories("a name", base, NULL, NULL, 0, &count), ORT_INVALID_ARGUMENT, "no room");
    assert_int_equal(count, 0);
    ok(release_factory(factory));
}

static OrtStatus *create_with(OrtEpFactory *factory, const char *key, const char *value, OrtEp **out)
{
    OrtSessionOptions *options;
    OrtStatus *status;

    ok(api->CreateSessionOptions(&options));
    ok(api->AddSessionConfigEntry(options, key, value));
    status = factory->CreateEp(factory, NULL, NULL, 0, options, NULL, out);
    api->ReleaseSessionOptions(options);
    return status;
}

static void test_options(void **state)
{
    OrtEpFactory *factory = open_factory();
    OrtEp *provider = NULL;

    (void)state;
    ok(create_with(factory, "ep.inlayexecutionprovider.intra_threads", "2", &provider));
    assert_non_null(provider);
    assert_string_equal(provider->GetName(provider), "InlayExecutionProvider");
    factory->ReleaseEp(factory, provider);
    /* options of the session and of other providers are not this provider's */
    ok(create_with(factory, "session.disable_prepacking", "1", &provider));
    factory->ReleaseEp(factory, provider);
    ok(create_with(factory, "ep.other.device", "1", &provider));
    factory->ReleaseEp(factory, provider);
    fails(create_with(factory, "ep.inlayexecutionprovider.intra_thread", "2", &provider), ORT_INVALID_ARGUMENT,
          "unknown option 'intra_thread'");
    assert_null(provider);
    fails(create_with(factory, "ep.inlayexecutionprovider.intra_threads", "many", &provider), ORT_INVALID_ARGUMENT,
          "intra_threads");
    assert_null(provider);
    ok(release_factory(factory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests_name("inlay_ep", tests, ort_test_begin, ort_test_end);
}
