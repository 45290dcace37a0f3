package org.apache.iceberg.golden;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.iceberg.util.ByteBuffers;

/** Bytes as lower-case hexadecimal digits. */
public final class Hex {
  private Hex() {}

  public static String of(ByteBuffer bytes) {
    return bytes == null ? null : HexFormat.of().formatHex(ByteBuffers.toByteArray(bytes.duplicate()));
  }

  public static String sha256(ByteBuffer bytes) {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(ByteBuffers.toByteArray(bytes.duplicate()));
      return HexFormat.of().formatHex(digest);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
