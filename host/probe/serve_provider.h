/* probe/serve_provider.h - the process of an isolated provider. */
#ifndef PROBE_SERVE_PROVIDER_H
#define PROBE_SERVE_PROVIDER_H

/* Serves the host that started this process until that host ends or kills it, see remote/shared.h. argv: address and
 * size of the results and of the arguments. Returns the exit code. */
int serve_provider(char **argv);
#endif
