// Makes the device's barrier for all work-groups of a dispatch (global wave sync, resource 0) ready for the next one. One
// work-item. HIP runs the same before each cooperative launch; targets without this barrier do not compile it.
kernel void kerncap_grid_barrier(unsigned int work_groups_minus_one) {
  __builtin_amdgcn_ds_gws_init(work_groups_minus_one, 0);
}
