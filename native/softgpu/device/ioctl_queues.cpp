// Driver calls about events and queues.
#include <cerrno>

#include "softgpu/device/ioctl.hpp"

namespace kerncap::softgpu {

int create_event(Driver& driver, kfd_ioctl_create_event_args& args) {
  const EventTable::Created created = driver.events().create(args.event_type, args.auto_reset != 0);
  if (created.id == 0) return -ENOSPC;
  args.event_id = created.id;
  args.event_trigger_data = created.id;
  args.event_slot_index = created.slot;
  // Each time, and never 0: the first call passes the handle of ROCr's signal page, later ones nothing; with 0 as the
  // answer signals get no mailbox, and waits for them never end.
  if (args.event_page_offset == 0) args.event_page_offset = 1;
  return 0;
}

int destroy_event(Driver& driver, kfd_ioctl_destroy_event_args& args) {
  return driver.events().destroy(args.event_id) ? 0 : -EINVAL;
}

int set_event(Driver& driver, kfd_ioctl_set_event_args& args) {
  return driver.events().set(args.event_id) ? 0 : -EINVAL;
}

int reset_event(Driver& driver, kfd_ioctl_reset_event_args& args) {
  return driver.events().reset(args.event_id) ? 0 : -EINVAL;
}

int wait_events(Driver& driver, kfd_ioctl_wait_events_args& args) {
  auto* events = reinterpret_cast<kfd_event_data*>(args.events_ptr);
  args.wait_result = driver.events().wait({events, args.num_events}, args.wait_for_all != 0, args.timeout);
  return args.wait_result == KFD_IOC_WAIT_RESULT_FAIL ? -EIO : 0;
}

int create_queue(Driver& driver, kfd_ioctl_create_queue_args& args) {
  Gpu* gpu = driver.gpu(args.gpu_id);
  if (gpu == nullptr) return -EINVAL;
  bool copies = true;
  switch (args.queue_type) {
    case KFD_IOC_QUEUE_TYPE_COMPUTE_AQL: copies = false; break;
    case KFD_IOC_QUEUE_TYPE_SDMA:
    case KFD_IOC_QUEUE_TYPE_SDMA_XGMI:
    case KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID: break;
    default: return -EOPNOTSUPP;
  }
  const bool power_of_two = args.ring_size != 0 && (args.ring_size & (args.ring_size - 1)) == 0;
  if (!power_of_two || args.ring_size < KFD_MIN_QUEUE_RING_SIZE || args.ring_base_address % 256 != 0) return -EINVAL;

  QueueSettings settings;
  settings.ring_va = args.ring_base_address;
  settings.ring_bytes = args.ring_size;
  settings.read_pointer_va = args.read_pointer_address;
  settings.write_pointer_va = args.write_pointer_address;
  settings.context_save_va = args.ctx_save_restore_address;
  args.queue_id = driver.create_queue(*gpu, settings, copies);
  if (args.queue_id == 0) return -ENOMEM;
  const auto queue = driver.queue(args.queue_id);
  const auto* doorbell = reinterpret_cast<const std::byte*>(queue->settings().doorbell);
  args.doorbell_offset = static_cast<std::uint64_t>(doorbell - driver.memory()->view());
  if (args.queue_percentage == 0) queue->suspend(true);
  return 0;
}

int destroy_queue(Driver& driver, kfd_ioctl_destroy_queue_args& args) {
  return driver.destroy_queue(args.queue_id) ? 0 : -EINVAL;
}

int update_queue(Driver& driver, kfd_ioctl_update_queue_args& args) {
  const auto queue = driver.queue(args.queue_id);
  if (queue == nullptr) return -EINVAL;
  queue->suspend(args.queue_percentage == 0);
  driver.scheduler().wake();
  return 0;
}

int set_cu_mask(Driver& driver, kfd_ioctl_set_cu_mask_args& args) {
  return driver.queue(args.queue_id) != nullptr ? 0 : -EINVAL;  // no unit is slower or busier than another
}

int alloc_queue_gws(Driver& driver, kfd_ioctl_alloc_queue_gws_args& args) {
  if (driver.queue(args.queue_id) == nullptr) return -EINVAL;
  args.first_gws = 0;
  return 0;
}

}  // namespace kerncap::softgpu
