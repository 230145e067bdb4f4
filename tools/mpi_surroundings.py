"""What Open MPI needs to know where several processes of one machine are tested or timed."""

# As root, on fewer cores than ranks, and in containers that do not let one process read another's memory. To look for a
# fabric takes 0.2 s of each start.
SURROUNDINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_hwloc_base_binding_policy": "none",
                "OMPI_MCA_pml": "ob1"}
