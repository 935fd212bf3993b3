//! What the types of the library forbid. Each example has one error, which it names.

/// The memory of a request belongs to the kernel or the device until the completion.
///
/// ```compile_fail,E0382
/// fn read(queue: &mut dyn iolane::Queue, mut buffer: iolane::Buffer) {
///     queue.submit(&mut [iolane::Request::read(1, 0, buffer)].into());
///     buffer.fill(0);
/// }
/// ```
struct ABufferCannotBeUsedWhileItsRequestIsInFlight;

/// ```compile_fail,E0382
/// fn twice(queue: &mut dyn iolane::Queue, request: iolane::Request) {
///     queue.submit(&mut [request].into());
///     queue.submit(&mut [request].into());
/// }
/// ```
struct ARequestCannotBeSubmittedTwice;

/// Two handles to the same bytes would let a program change what a device reads.
///
/// ```compile_fail,E0277
/// fn copy(buffer: iolane::Buffer) -> [iolane::Buffer; 2] {
///     [Clone::clone(&buffer), buffer]
/// }
/// ```
struct ABufferCannotBeCopied;

/// Rings are used by one thread; `open_movable_queue` opens those that are not bound to theirs.
///
/// ```compile_fail,E0277
/// fn send(queue: Box<dyn iolane::Queue>) {
///     let used = move || queue.in_flight();
///     std::thread::spawn(used);
/// }
/// ```
struct AQueueCannotChangeItsThread;

/// A target is opened for writing by the guard's permission, or by a call that says that there is none.
///
/// ```compile_fail,E0277
/// let options = iolane::Target::options();
/// options.write(true);
/// ```
struct ATargetIsNotWritableByAFlag;

/// The library cannot know how long memory lives that somebody else owns.
///
/// ```compile_fail,E0133
/// use std::ptr::NonNull;
/// fn own(bytes: NonNull<u8>) -> iolane::Result<iolane::Pool> {
///     iolane::Pool::from_region(bytes, 4096, 4096, ())
/// }
/// ```
struct MemoryOfOthersNeedsAnArgument;
