/* ort_load LIBRARY - loads models in ONNX Runtime. Standard input: for each model its bytes (4, little-endian) and the
 * file. Prints one line for each: "ok" or the error. */
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const OrtApi *api;

static void check(OrtStatus *status)
{
    if (status == NULL)
        return;
    fprintf(stderr, "ort_load: %s\n", api->GetErrorMessage(status));
    exit(1);
}

static void load(OrtEnv *environment, OrtSessionOptions *options, const void *model, uint32_t bytes)
{
    OrtSession *session = NULL;
    OrtStatus *status = api->CreateSessionFromArray(environment, model, bytes, options, &session);

    if (status == NULL) {
        puts("ok");
        api->ReleaseSession(session);
        return;
    }
    for (const char *c = api->GetErrorMessage(status); *c != '\0'; c++)
        putchar(*c == '\n' ? ' ' : *c);
    putchar('\n');
    api->ReleaseStatus(status);
}

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    const OrtApiBase *(*base)(void);
    OrtEnv *environment;
    OrtSessionOptions *options;
    uint32_t bytes;

    if (library == NULL || (*(void **)&base = dlsym(library, "OrtGetApiBase")) == NULL) {
        fprintf(stderr, "usage: ort_load LIBRARY; %s\n", argc == 2 ? dlerror() : "no library given");
        return 2;
    }
    api = base()->GetApi(ORT_API_VERSION);
    check(api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "ort_load", &environment));
    check(api->CreateSessionOptions(&options));
    check(api->SetIntraOpNumThreads(options, 1));
    check(api->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
    while (fread(&bytes, sizeof bytes, 1, stdin) == 1) {
        char *model = malloc(bytes);

        if (model == NULL || fread(model, 1, bytes, stdin) != bytes)
            return 1;
        load(environment, options, model, bytes);
        free(model);
    }
    return 0;
}
