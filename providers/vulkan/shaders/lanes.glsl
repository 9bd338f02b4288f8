// LANES invocations of a workgroup share an item. LANES is 1 or the size of the workgroup.
shared T shared_value[256];

uint shared_item() { return LANES == 1u ? invocation() : workgroup(); }
uint own_lane() { return LANES == 1u ? 0u : gl_LocalInvocationID.x; }

// Combines the values of all lanes of an item by JOIN, or by LARGER if `most`.
T combine_lanes(T x, bool most)
{
    const uint me = gl_LocalInvocationID.x;

    if (LANES == 1u)
        return x;
    shared_value[me] = x;
    for (uint half_n = LANES / 2u; half_n > 0u; half_n /= 2u) {
        barrier();
        if (me < half_n)
            shared_value[me] = most ? LARGER(shared_value[me], shared_value[me + half_n])
                                    : JOIN(shared_value[me], shared_value[me + half_n]);
    }
    barrier();
    x = shared_value[0];
    barrier();
    return x;
}
