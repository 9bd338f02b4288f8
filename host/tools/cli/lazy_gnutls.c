/* Opens GnuTLS when a model is signed or verified. If the program were linked to GnuTLS, every command would load it
 * and the eight libraries that it needs: 2 MiB of memory and a third of the start-up of a small model.
 *
 * The functions below have the names of the library's, so that shared/signing.c is the same here and in inlay-serve,
 * which is linked to the library. */
#include <dlfcn.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char soname[] = "libgnutls.so.30";

#define FUNCTION(result, name, parameters, arguments) static result(*real_##name) parameters;
#define PROCEDURE(name, parameters, arguments) FUNCTION(void, name, parameters, arguments)
#include "gnutls_functions.def"
#undef FUNCTION
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_open;

static void open_library(void)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    is_open = library != NULL;
#define FUNCTION(result, name, parameters, arguments)                                                                  \
    is_open = is_open && (*(void **)&real_##name = dlsym(library, #name)) != NULL;
#include "gnutls_functions.def"
#undef FUNCTION
}

/* Must succeed before any other function is called. */
int gnutls_global_init(void)
{
    (void)pthread_once(&once, open_library);
    return is_open ? GNUTLS_E_SUCCESS : GNUTLS_E_UNIMPLEMENTED_FEATURE;
}

#undef PROCEDURE
#define FUNCTION(result, name, parameters, arguments)                                                                  \
    result name parameters                                                                                             \
    {                                                                                                                  \
        return real_##name arguments;                                                                                  \
    }
#define PROCEDURE(name, parameters, arguments)                                                                         \
    void name parameters                                                                                               \
    {                                                                                                                  \
        real_##name arguments;                                                                                         \
    }
#include "gnutls_functions.def"
#undef FUNCTION
#undef PROCEDURE

gnutls_free_function gnutls_free = free; /* the library allocates by malloc() */
